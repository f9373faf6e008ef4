//! A pipeline of three processes that work on one image. The image moves from process to process as
//! a block, without a copy.
//!
//! ```text
//! cargo build -p m3ipc-daemon
//! export M3_DAEMON=$PWD/target/debug/m3d
//! cargo run --release -p m3ipc --example pipeline [MEGABYTES]
//! ```
//!
//! The stages are this program, started with a role. Two numbers show that nothing is copied: the
//! bytes that the library copied for each stage, and the private memory of each stage.

use m3ipc::{
    Address, Area, AreaConfig, BlockLifetime, Endpoint, Message, Node, Source, Timeout, VmConfig,
    VmLife,
};
use std::process::{Child, Command};
use std::time::Instant;

const INVERT: i32 = 1;
const BLUR: i32 = 2;
const COUNT: i32 = 3;
const ROLES: [i32; 3] = [INVERT, BLUR, COUNT];
const MAIN: Address = Address(4);
/// Indexes of the sums in a message.
const SUM: usize = 0;
const COPIED: usize = 1;
const PRIVATE_KB: usize = 2;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [stage, vm, role] if stage == "stage" => work(vm, role.parse()?),
        [megabytes] => lead(megabytes.parse::<u64>()? << 20),
        _ => lead(256 << 20),
    }
}

/// A stage: takes the block, works on it where it lies, sends it on.
fn work(vm: &str, role: i32) -> Result<(), Failure> {
    let mut me = Node::attach()?.vm_named(vm)?.bind(role)?;
    loop {
        let mut message = me.receive(Source::Any)?;
        let Some(mut block) = me.take_block()? else { return Ok(()) };
        if message.m_type == 0 {
            // For the measurement of a bare hand-over.
            me.reply_block(message.source, &message, block)?;
            continue;
        }
        match role {
            INVERT => block.update(|_, pixels| pixels.iter_mut().for_each(|it| *it = !*it))?,
            BLUR => {
                let mut left = block.get(0).unwrap_or(0);
                block.update(|at, pixels| {
                    for pixel in &mut pixels[usize::from(at == 0)..] {
                        *pixel = left / 2 + *pixel / 2;
                        left = *pixel;
                    }
                })?;
            }
            _ => message.set_long(SUM, block.iter().map(i64::from).sum()),
        }
        message.set_long(COPIED, message.long(COPIED) + i64::try_from(me.copied_total())?);
        message.set_long(PRIVATE_KB, message.long(PRIVATE_KB).max(private_kb()?));
        let next = if role == COUNT { MAIN } else { Address(role + 1) };
        me.send_block(next, &message, block, Timeout::Never)?;
    }
}

/// Private memory of this process, as the kernel counts it.
fn private_kb() -> Result<i64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line
        .and_then(|line| line.split_whitespace().next())
        .ok_or("the kernel does not count it")?;
    Ok(number.parse()?)
}

fn lead(bytes: u64) -> Result<(), Failure> {
    let mut node = Node::attach()?;
    let name = format!("pipe-{}", std::process::id());
    let vm = node.vm_init(&VmConfig::new(&name).life(VmLife::Creator))?;
    let mut me = vm.bind(MAIN.0)?;
    let program = std::env::current_exe()?;
    let start =
        |role: i32| Command::new(&program).args(["stage", &name, &role.to_string()]).spawn();
    let mut stages = ROLES.map(start).into_iter().collect::<Result<Vec<Child>, _>>()?;
    for role in ROLES {
        me.wait_bind(Address(role), Timeout::Never)?;
    }

    let area = me.create_area(&AreaConfig::vm(bytes + (1 << 20)))?;
    let mut image = me.allocate(&area, bytes, BlockLifetime::Long)?;
    image.update(|_, pixels| {
        pixels.iter_mut().zip((0..=255_u8).cycle()).for_each(|(pixel, value)| *pixel = value);
    })?;
    let address = image.address();
    let begin = Instant::now();
    me.send_block(Address(INVERT), &Message::new(1), image, Timeout::Never)?;
    let answer = me.receive(Source::From(Address(COUNT)))?;
    let image = me.take_block()?.ok_or("the image did not come back")?;
    let (took, sum) = (begin.elapsed(), answer.long(SUM));
    println!("{} MB through three processes in {took:.0?}, sum {sum}", bytes >> 20);
    let (copied, private) =
        (answer.long(COPIED) + i64::try_from(me.copied_total())?, answer.long(PRIVATE_KB));
    let same = image.address() == address;
    println!(
        "bytes copied: {copied}; private memory of a stage: at most {private} KB; same address: \
         {same}"
    );
    let right = image.iter().map(i64::from).sum::<i64>() == sum;
    drop(image);

    for size in
        [4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20].into_iter().filter(|size| *size <= bytes)
    {
        println!("hand-over of {size:>9} bytes: {:>6.0} ns", hand_over_ns(&mut me, &area, size)?);
    }
    // A message without a block ends a stage.
    for role in ROLES {
        me.send(Address(role), &Message::new(0))?;
    }
    for stage in &mut stages {
        stage.wait()?;
    }
    drop(me);
    node.vm_end(vm.id())?;
    if copied == 0 && same && right {
        Ok(())
    } else {
        Err("the image was copied, moved or changed".into())
    }
}

/// The median time of one hand-over: half of there and back.
fn hand_over_ns(me: &mut Endpoint, area: &Area, bytes: u64) -> Result<f64, Failure> {
    let mut block = me.allocate(area, bytes, BlockLifetime::Short)?;
    let mut times = Vec::new();
    for _ in 0..1000 {
        let begin = Instant::now();
        me.sendrec_block(Address(INVERT), &Message::new(0), block, Timeout::Never)?;
        block = me.take_block()?.ok_or("the block did not come back")?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2].as_secs_f64() * 1e9 / 2.0)
}
