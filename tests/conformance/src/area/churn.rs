//! Random use of an area by several at once, some of whom are killed in the middle.
//!
//! Each block says in its first word who holds it and in the rest what its number is: two who hold
//! the same bytes would see each other's marks.

use m3ipc::{Address, Area, Block, BlockLifetime, Endpoint, Message, Source, Timeout};

const SLOTS: i32 = 6;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

fn mark(block: &mut Block, me: Address) {
    let mark = u64::from(me.0.cast_unsigned()) << 32 | u64::from(block.number());
    // A block that is only read here keeps its marks.
    let _ = block.update(|_, bytes| {
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&mark.to_le_bytes());
        }
    });
}

/// Whether the marks are one's own still: nobody else has the same bytes in hand.
fn check(block: &Block, me: Address) {
    let mark = u64::from(me.0.cast_unsigned()) << 32 | u64::from(block.number());
    for word in block.to_vec().chunks_exact(8) {
        let found = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        if found != mark {
            println!("two hands: {me:?} found {found:#x}, and not {mark:#x}");
            std::process::exit(3);
        }
    }
}

pub fn run(me: &mut Endpoint, id: i32) {
    let area = loop {
        match me.attach_area(id.cast_unsigned()) {
            Ok(area) => break area,
            Err(error) if error.code() == m3ipc::Code::Again => {}
            Err(error) => panic!("{error}"),
        }
    };
    let own = me.address();
    let mut dice = Dice(u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut hand: Vec<Block> = Vec::new();
    let mut steps = 0_u64;
    loop {
        steps += 1;
        if steps.is_multiple_of(1000) {
            println!("{steps}");
        }
        step(me, &area, &mut dice, &mut hand, own);
    }
}

fn step(me: &mut Endpoint, area: &Area, dice: &mut Dice, hand: &mut Vec<Block>, own: Address) {
    match dice.roll(10) {
        0..=2 if hand.len() < 40 => {
            let kind = if dice.roll(2) == 0 { BlockLifetime::Short } else { BlockLifetime::Long };
            if let Ok(mut block) = me.allocate(area, 8 + dice.roll(4000), kind) {
                mark(&mut block, own);
                hand.push(block);
            }
        }
        3..=4 if !hand.is_empty() => {
            let which = usize::try_from(dice.roll(hand.len() as u64)).unwrap_or(0);
            let block = hand.swap_remove(which);
            check(&block, own);
        }
        5..=6 if !hand.is_empty() => {
            let to =
                Address(i32::try_from(1 + dice.roll(SLOTS.unsigned_abs().into())).unwrap_or(1));
            let which = usize::try_from(dice.roll(hand.len() as u64)).unwrap_or(0);
            let block = hand.swap_remove(which);
            check(&block, own);
            let sent = me.send_block(
                to,
                &Message::new(1),
                block,
                Timeout::from_ms(dice.roll(3).cast_signed()),
            );
            // What was not taken is ours still, unless it died with its home.
            hand.extend(sent.err().and_then(|unsent| unsent.block));
        }
        _ => {
            if me.receive_timeout(Source::Any, Timeout::from_ms(dice.roll(2).cast_signed())).is_ok()
                && let Ok(Some(mut block)) = me.take_block()
            {
                mark(&mut block, own);
                hand.push(block);
            }
        }
    }
}
