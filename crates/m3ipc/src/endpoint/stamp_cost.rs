//! The cost of stamping, measured.

use super::stamps::{Moment, Tracing};
use m3ipc_link::{MessageKind, TraceHalf, TraceRecord, TraceRing, TraceWhat};

/// Records of a ring by default: 512 KiB, or 40 ms of an endpoint with 100,000 calls a second.
pub const SLOTS_DEFAULT: u32 = 8_192;

/// The cost of stamping on this machine, in ticks. The example is at [`cost`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StampCost {
    /// One moment of a call, stamped as an endpoint does it.
    pub stamp: f64,
    /// One record, written into a ring.
    pub record: f64,
    /// A stamp alone.
    pub bare: f64,
}

/// Repetitions between two readings of the clock, and the number of such readings.
const COST_TIMES: u32 = 256;
const COST_BLOCKS: usize = 101;

/// Measures the cost of stamping: medians, in a ring of this process.
///
/// ```
/// let cost = m3ipc::trace::cost(false)?;
/// assert!(cost.record >= 0.0);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The error of the operating system if there is no memory for a ring.
pub fn cost(sharp: bool) -> Result<StampCost, std::io::Error> {
    let memory = m3ipc_sys::create_memory("m3-trace", m3ipc_link::trace_bytes(SLOTS_DEFAULT))?;
    let ring = TraceRing::map(memory)?;
    let mut tracing = Some(Box::new(Tracing::new(ring, sharp)));
    let record = TraceRecord {
        what: TraceWhat::Message(MessageKind::Request),
        sequence: 1,
        answers: 0,
        peer: m3ipc_abi::Address(1),
        m_type: 0,
        bytes: 0,
        half: TraceHalf::Gave { begun: 1, ready: 2, published: 3, wake: None },
    };
    let stamp = median_of(|| {
        if let Some(tracing) = std::hint::black_box(&mut tracing) {
            tracing.stamp(Moment::Found);
        }
    });
    let record = median_of(|| {
        if let Some(tracing) = std::hint::black_box(&mut tracing) {
            tracing.write(std::hint::black_box(&record));
        }
    });
    let bare = median_of(|| {
        std::hint::black_box(m3ipc_sys::stamp());
    });
    Ok(StampCost { stamp, record, bare })
}

fn median_of(mut once: impl FnMut()) -> f64 {
    let mut blocks: Vec<u64> = (0..COST_BLOCKS)
        .map(|_| {
            let from = m3ipc_sys::stamp();
            (0..COST_TIMES).for_each(|_| once());
            m3ipc_sys::stamp().saturating_sub(from)
        })
        .collect();
    blocks.sort_unstable();
    blocks[COST_BLOCKS / 2] as f64 / f64::from(COST_TIMES)
}
