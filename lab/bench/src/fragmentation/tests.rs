use super::*;

/// First fit over a list of free runs.
struct FirstFit {
    free: BTreeMap<u64, u64>,
}

impl FirstFit {
    fn new(bytes: u64) -> Self {
        Self { free: BTreeMap::from([(0, bytes)]) }
    }
}

impl Pool for FirstFit {
    fn take(&mut self, bytes: u64, is_long: bool) -> Option<u64> {
        let fits = |(_, size): &(&u64, &u64)| **size >= bytes;
        let run =
            if is_long { self.free.iter().rev().find(fits) } else { self.free.iter().find(fits) };
        let (&at, &size) = run?;
        self.free.remove(&at);
        let (taken, left) = if is_long { (at + size - bytes, at) } else { (at, at + bytes) };
        if size > bytes {
            self.free.insert(left, size - bytes);
        }
        Some(taken)
    }

    fn give(&mut self, offset: u64, bytes: u64) {
        let (mut at, mut size) = (offset, bytes);
        if let Some((&before, &length)) = self.free.range(..offset).next_back() {
            assert!(before + length <= offset, "given back twice");
            if before + length == offset {
                (at, size) = (before, length + size);
            }
        }
        if let Some(length) = self.free.remove(&(offset + bytes)) {
            size += length;
        }
        self.free.insert(at, size);
    }

    fn free_bytes(&self) -> u64 {
        self.free.values().sum()
    }

    fn largest_free(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }
}

/// The same without the two kinds.
struct OneKind(FirstFit);

impl Pool for OneKind {
    fn take(&mut self, bytes: u64, _: bool) -> Option<u64> {
        self.0.take(bytes, false)
    }
    fn give(&mut self, offset: u64, bytes: u64) {
        self.0.give(offset, bytes);
    }
    fn free_bytes(&self) -> u64 {
        self.0.free_bytes()
    }
    fn largest_free(&self) -> u64 {
        self.0.largest_free()
    }
}

const SHORT: Life = Life {
    operations: 60_000,
    samples: 10,
    long_of_100: 10,
    lifetimes: (20, 2_000),
    most_bytes: 4_096,
};

#[test]
fn a_life_is_the_same_each_time() {
    let course = || live(&mut FirstFit::new(8 << 20), &SHORT, 7);
    let (one, other) = (course(), course());
    assert_eq!(one.samples, other.samples);
    assert_eq!(one.samples.len(), 10);
    assert!(one.samples.iter().all(|sample| sample.largest_bytes <= sample.free_bytes));
    assert_eq!((one.refused, one.for_pieces), (0, 0));
}

#[test]
fn two_kinds_leave_more_in_one_piece() {
    // About half of the room is allocated. One seed alone may favour either pool.
    let share = |pool: &dyn Fn() -> Box<dyn Pool>| -> f64 {
        let courses = (0..10).map(|seed| live(&mut *pool(), &SHORT, seed));
        courses.flat_map(|course| course.samples).map(|sample| sample.share()).sum()
    };
    let kept = share(&|| Box::new(FirstFit::new(512 << 10)));
    let mixed = share(&|| Box::new(OneKind(FirstFit::new(512 << 10))));
    assert!(kept > mixed, "{kept} and {mixed}");
}

#[test]
fn a_pool_that_is_too_small_refuses() {
    let course = live(&mut FirstFit::new(64 << 10), &SHORT, 1);
    assert!(course.refused > 0 && course.for_pieces <= course.refused);
}

#[test]
fn shares_are_of_the_free_memory() {
    let sample =
        |free_bytes, largest_bytes| Sample { operation: 1, free_bytes, largest_bytes }.share();
    assert!((sample(200, 50) - 0.25).abs() < 1e-12);
    assert!((sample(0, 0) - 1.0).abs() < 1e-12);
}
