use super::*;
use proptest::prelude::*;

const AREA: u64 = 64 * 1024;

#[test]
fn short_lived_blocks_come_from_the_front_and_long_lived_from_the_back() {
    let mut allocator = Allocator::default();
    allocator.add(0, AREA);
    assert_eq!(allocator.take(128, 64, BlockLifetime::Short), Some(0));
    assert_eq!(allocator.take(128, 64, BlockLifetime::Long), Some(AREA - 128));
    assert_eq!(allocator.take(64, 64, BlockLifetime::Short), Some(128));
    allocator.give(0, 128);
    assert_eq!(allocator.take(64, 64, BlockLifetime::Short), Some(0));
}

#[test]
fn an_exact_fit_is_found_and_a_full_allocator_refuses() {
    let mut allocator = Allocator::default();
    allocator.add(4096, 4096);
    assert_eq!(allocator.take(4096, 4096, BlockLifetime::Long), Some(4096));
    assert_eq!(allocator.take(64, 64, BlockLifetime::Short), None);
    assert_eq!((allocator.free_bytes(), allocator.largest_free()), (0, 0));
    allocator.give(4096, 4096);
    assert_eq!(allocator.take(8192, 64, BlockLifetime::Short), None);
    assert_eq!(allocator.largest_free(), 4096);
}

#[test]
fn neighbouring_extents_are_one_range() {
    let mut allocator = Allocator::default();
    allocator.add(0, 4096);
    allocator.add(8192, 4096);
    assert_eq!(allocator.take(8192, 64, BlockLifetime::Short), None);
    allocator.add(4096, 4096);
    assert_eq!((allocator.largest_free(), allocator.total_bytes()), (12288, 12288));
    assert_eq!(allocator.take(12288, 64, BlockLifetime::Long), Some(0));
}

/// Steps of the long run. For more: `M3_AREA_STEPS=10000000 cargo test -p m3ipc-area --release`.
fn steps() -> u64 {
    std::env::var("M3_AREA_STEPS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(if cfg!(miri) { 300 } else { 200_000 })
}

/// A long random run: the area becomes full and fragmented many times, as no short run can.
#[test]
fn a_long_random_run_agrees_with_a_flag_per_unit() {
    const LARGE: u64 = 512 * 1024;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random_below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    };
    let mut allocator = Allocator::default();
    allocator.add(0, LARGE);
    let mut units = Units(vec![false; usize::try_from(LARGE / UNIT_BYTES).unwrap()]);
    let (mut taken, mut used, mut refusals) = (Vec::new(), 0, 0_u64);
    for step in 0..steps() {
        // The area fills and empties in alternation.
        let takes = if (step / 5_000) % 2 == 0 { 60 } else { 40 };
        if !taken.is_empty() && random_below(100) >= takes {
            let which = usize::try_from(random_below(taken.len() as u64)).unwrap();
            let (offset, bytes) = taken.swap_remove(which);
            units.mark(offset, bytes, false);
            allocator.give(offset, bytes);
            used -= bytes;
        } else {
            let most = 2 << random_below(7);
            let bytes = (1 + random_below(most)) * UNIT_BYTES;
            let align = UNIT_BYTES << random_below(4);
            let kind =
                if random_below(3) == 0 { BlockLifetime::Long } else { BlockLifetime::Short };
            match allocator.take(bytes, align, kind) {
                Some(offset) => {
                    assert_eq!(offset % align, 0);
                    units.mark(offset, bytes, true);
                    taken.push((offset, bytes));
                    used += bytes;
                }
                None => {
                    refusals += 1;
                    assert!(
                        !units.has_free(bytes, align),
                        "step {step}: {bytes} bytes by {align} would fit"
                    );
                }
            }
        }
        assert_eq!(allocator.free_bytes(), LARGE - used);
    }
    assert!(cfg!(miri) || refusals > 0, "the allocator was never full");
    for (offset, bytes) in taken {
        allocator.give(offset, bytes);
    }
    assert_eq!((allocator.largest_free(), allocator.free_bytes()), (LARGE, LARGE));
}

/// The model: one flag per unit.
#[derive(Debug)]
struct Units(Vec<bool>);

impl Units {
    fn mark(&mut self, offset: u64, bytes: u64, taken: bool) {
        let first = usize::try_from(offset / UNIT_BYTES).unwrap();
        let count = usize::try_from(bytes / UNIT_BYTES).unwrap();
        for unit in &mut self.0[first..first + count] {
            assert_ne!(*unit, taken, "a unit is taken twice, or given back twice");
            *unit = taken;
        }
    }

    /// Whether any range of this size and alignment is free.
    fn has_free(&self, bytes: u64, align: u64) -> bool {
        let count = usize::try_from(bytes / UNIT_BYTES).unwrap();
        let step = usize::try_from(align / UNIT_BYTES).unwrap();
        (0..self.0.len()).step_by(step).any(|first| {
            self.0.get(first..first + count).is_some_and(|units| units.iter().all(|taken| !taken))
        })
    }

    fn free_bytes(&self) -> u64 {
        self.0.iter().filter(|taken| !**taken).count() as u64 * UNIT_BYTES
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[cfg_attr(miri, ignore = "too slow")]
    #[test]
    fn it_agrees_with_a_flag_per_unit(
        steps in prop::collection::vec(
            (0_u64..40, 0_u32..7, any::<bool>(), any::<prop::sample::Index>()),
            1..400,
        )
    ) {
        let mut allocator = Allocator::default();
        allocator.add(0, AREA);
        let mut units = Units(vec![false; usize::try_from(AREA / UNIT_BYTES).unwrap()]);
        let mut taken = Vec::new();
        for (size, align, long, which) in steps {
            if size < 16 && !taken.is_empty() {
                let (offset, bytes) = taken.swap_remove(which.index(taken.len()));
                units.mark(offset, bytes, false);
                allocator.give(offset, bytes);
            } else {
                let (bytes, align) = ((size + 1) * (size + 1) * UNIT_BYTES, UNIT_BYTES << align);
                let kind = if long { BlockLifetime::Long } else { BlockLifetime::Short };
                match allocator.take(bytes, align, kind) {
                    Some(offset) => {
                        prop_assert_eq!(offset % align, 0);
                        units.mark(offset, bytes, true);
                        taken.push((offset, bytes));
                    }
                    None => prop_assert!(!units.has_free(bytes, align)),
                }
            }
            prop_assert_eq!(allocator.free_bytes(), units.free_bytes());
        }
        for (offset, bytes) in taken {
            allocator.give(offset, bytes);
        }
        prop_assert_eq!(allocator.largest_free(), AREA);
    }
}
