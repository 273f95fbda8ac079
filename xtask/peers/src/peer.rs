//! The readers that are compared, and what they have in common.

use crate::round::Stage;
use crate::scene::Scene;
use crate::{aya, libbpf, libbpf_rs_buffer, ours, plain, ringbuf};
use anyhow::Result;
use tracer::probe::bench::{Emit, RingbufOptions};

/// An open reader; the rings go with it.
pub trait Reader {
    /// Waits until it is woken, for a second at most, and reads.
    fn turn(&mut self) -> Result<()>;

    /// Reads all that is there.
    fn all(&mut self) -> Result<()>;

    /// Bytes of each ring.
    fn ring_size(&self) -> usize;
}

/// A reader to be opened.
pub struct Peer {
    /// Its name in the tables.
    pub name: &'static str,
    /// By which load of the object.
    pub load: Load,
    /// Opens it.
    pub open: for<'a> fn(&Stage<'a>) -> Result<Box<dyn Reader + 'a>>,
}

/// What is fixed when the object is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A record an event, into the rings.
    Single,
    /// Eight events a record, into the rings.
    Gathered,
    /// A record an event into a BPF ringbuf, which wakes its reader by its own rule.
    Ringbuf,
    /// The same, but woken by a quarter of it.
    TunedRingbuf,
}

impl Load {
    /// All; the readers of one share each round's load.
    pub const ALL: [Load; 4] = [Load::Single, Load::Gathered, Load::Ringbuf, Load::TunedRingbuf];

    /// What the programs put out in a scene, with a ringbuf as large as the rings of so many CPUs together.
    pub fn emit(self, scene: &Scene, cpus: usize) -> Emit {
        let whole = (scene.pages() * 4096 * cpus.max(1)).next_power_of_two();
        let ringbuf = |wake_at| Some(RingbufOptions { size: whole, wake_at });
        Emit {
            size: scene.size,
            timed: scene.timed(),
            gather: if self == Load::Gathered { 8 } else { 1 },
            ringbuf: match self {
                Load::Single | Load::Gathered => None,
                Load::Ringbuf => ringbuf(None),
                Load::TunedRingbuf => ringbuf(Some((whole / 4) as u32)),
            },
        }
    }
}

/// Ours.
pub const OURS: &str = "ours, default options";
/// Ours, with gathering.
pub const GATHERED: &str = "ours, 8 events gathered";
/// The loop of 2015, with rings as large as ours.
pub const PLAIN: &str = "2015 sample's manner";
/// libbpf's, as its documentation has it.
pub const LIBBPF: &str = "libbpf, default";
/// libbpf's, at its best.
pub const TUNED: &str = "libbpf, woken by a quarter ring";
/// libbpf-rs's.
pub const LIBBPF_RS: &str = "libbpf-rs PerfBuffer";
/// aya's.
pub const AYA: &str = "aya 0.14 PerfEventArray";

/// The readers: ours first, then what it is compared with.
pub const PEERS: [Peer; 10] = [
    Peer { name: OURS, load: Load::Single, open: ours::open },
    Peer { name: PLAIN, load: Load::Single, open: |at| plain::open(at, at.pages) },
    Peer { name: "2015 sample's manner, its 8 pages", load: Load::Single, open: |at| plain::open(at, 8) },
    Peer { name: TUNED, load: Load::Single, open: libbpf::tuned },
    Peer { name: LIBBPF, load: Load::Single, open: libbpf::default },
    Peer { name: LIBBPF_RS, load: Load::Single, open: libbpf_rs_buffer::open },
    Peer { name: AYA, load: Load::Single, open: aya::open },
    Peer { name: GATHERED, load: Load::Gathered, open: ours::open },
    Peer { name: "BPF ringbuf, default", load: Load::Ringbuf, open: ringbuf::open },
    Peer { name: "BPF ringbuf, woken by a quarter", load: Load::TunedRingbuf, open: ringbuf::open },
];
