//! Blocks taken and given back in one process: a thousand are out, the oldest goes, a new one comes.
//!
//! ```text
//! malloc      the C library's
//! allocator   that of areas by itself: private tables, nothing that others could see
//! ```

use std::collections::VecDeque;
use std::hint::black_box;

use m3ipc_area::{Allocator, BlockLifetime, UNIT_BYTES};

use super::Way;
use crate::area::study::Dice;
use crate::area::{Shape, Test};
use crate::copy::way::{Opened, Requester, drive};
use crate::error::Error;
use crate::job::{Report, Side};
use crate::mechanism::{Family, Inherited, Site};
use crate::peer::Run;

/// Blocks that are out.
const OUT: usize = 1_000;
/// Room for them, whatever their sizes.
const ROOM_FACTOR: usize = 4;

/// The allocator of areas.
pub struct Private;
/// malloc(3).
pub struct Malloc;

fn alone() -> Opened {
    let nothing = Inherited { fds: vec![], names: vec![] };
    Opened { sides: vec![(Side::Client, nothing)], ..Opened::default() }
}

impl Way for Private {
    fn name(&self) -> &'static str {
        "allocator"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn test(&self) -> Test {
        Test::Pool
    }

    fn open(&self, _: &Site, _: &Shape) -> Result<Opened, Error> {
        Ok(alone())
    }

    fn client(&self, _: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let mut tables = Allocator::default();
        tables.add(0, (shape.bytes.max(4096) * OUT * ROOM_FACTOR) as u64);
        let full = || Error::Usage("the allocator is full with a quarter of it taken".into());
        let take = move |bytes: usize, old: Option<(u64, u64)>| {
            if let Some((offset, bytes)) = old {
                tables.give(offset, bytes);
            }
            let bytes = (bytes as u64).next_multiple_of(UNIT_BYTES);
            let offset = tables.take(bytes, UNIT_BYTES, BlockLifetime::Short).ok_or_else(full)?;
            Ok((offset, bytes))
        };
        drive(run, Turnover::new(shape.bytes, take)?)
    }
}

impl Way for Malloc {
    fn name(&self) -> &'static str {
        "malloc"
    }

    fn test(&self) -> Test {
        Test::Pool
    }

    fn open(&self, _: &Site, _: &Shape) -> Result<Opened, Error> {
        Ok(alone())
    }

    fn client(&self, _: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let take = |bytes: usize, old: Option<Vec<u8>>| {
            drop(black_box(old));
            Ok(black_box(Vec::with_capacity(bytes)))
        };
        drive(run, Turnover::new(shape.bytes, take)?)
    }
}

/// A trip gives the oldest block back and takes a new one of a random size.
pub struct Turnover<T, F> {
    out: VecDeque<T>,
    dice: Dice,
    most: usize,
    take: F,
}

impl<T, F: FnMut(usize, Option<T>) -> Result<T, Error>> Turnover<T, F> {
    /// A thousand blocks of up to `most` bytes are out; `take` gives an old block back and takes a new one.
    ///
    /// # Errors
    /// What `take` says.
    pub fn new(most: usize, mut take: F) -> Result<Self, Error> {
        let mut dice = Dice::new(1);
        let out = (0..OUT).map(|_| take(dice.size(most), None)).collect::<Result<_, _>>()?;
        Ok(Self { out, dice, most, take })
    }
}

impl<T, F: FnMut(usize, Option<T>) -> Result<T, Error>> Requester for Turnover<T, F> {
    #[inline]
    fn copy(&mut self, _: u64) -> Result<(), Error> {
        let old = self.out.pop_front();
        let new = (self.take)(self.dice.size(self.most), old)?;
        self.out.push_back(new);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
