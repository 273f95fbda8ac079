//! A perf event array that is not ours: whether its slots are taken, and an end marker in its rings.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use libbpf_rs::{MapCore, MapHandle, Object, ProgramInput};

use super::super::{object, preflight};
use crate::{Error, ErrorKind, Result};

/// `BPF_F_TEST_RUN_ON_CPU`
const TEST_RUN_ON_CPU: u32 = 1;
const ENOENT: i32 = nix::errno::Errno::ENOENT as i32;

/// Programs of ours that use the array; nothing of its owner's is touched.
#[derive(Debug)]
pub struct Marker {
    object: Object,
    word: u64,
}

impl Marker {
    /// The raw bytes of an end marker, which need no padding.
    pub const RAW: usize = 20;

    /// Loads the programs on an array. `word` is what an end marker opens with; nobody else should know it.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn new(array: BorrowedFd<'_>, word: u64) -> Result<Marker> {
        let mut open = object::open_foreign()?;
        for mut map in open.maps_mut().filter(|m| m.name() == "events") {
            map.reuse_fd(array).map_err(|e| {
                let cause = preflight::os_error(&e);
                Error::caused(ErrorKind::Runtime, "using the perf event array in a program of ours", cause)
            })?;
        }
        for name in ["slot_state", "end_marker"] {
            object::select(&mut open, name);
        }
        let object = object::load(open).map_err(|e| e.context("the programs that watch the array"))?;
        Ok(Marker { object, word })
    }

    /// Whether somebody's event is in a slot. Nothing is written.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn is_taken(&self, slot: u32) -> io::Result<bool> {
        Ok(self.run("slot_state", [u64::from(slot), 0], None)? != -ENOENT)
    }

    /// Writes an end marker into the ring of `cpu`.
    ///
    /// # Errors
    ///
    /// The CPU is offline, or the output failed.
    pub fn mark_end(&self, cpu: u32) -> io::Result<()> {
        match self.run("end_marker", [self.word, u64::from(cpu)], Some(cpu))? {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        }
    }

    /// What end markers open with.
    pub fn word(&self) -> u64 {
        self.word
    }

    fn run(&self, name: &str, args: [u64; 2], cpu: Option<u32>) -> io::Result<i32> {
        let program = self.object.progs_mut().find(|p| p.name() == name);
        let program = program.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut context: Vec<u8> = args.iter().flat_map(|a| a.to_ne_bytes()).collect();
        let input = ProgramInput {
            context_in: Some(&mut context),
            cpu: cpu.unwrap_or(0),
            flags: if cpu.is_some() { TEST_RUN_ON_CPU } else { 0 },
            ..ProgramInput::default()
        };
        let output = program.test_run(input).map_err(|e| preflight::os_error(&e))?;
        Ok(output.return_value as i32)
    }
}

/// Those of an array's slots that hold somebody's event.
///
/// # Errors
///
/// The kernel's refusal to look.
pub fn taken(marker: &Marker, slots: &[u32]) -> Result<Vec<u32>> {
    let one = |&slot: &u32| {
        marker.is_taken(slot).map(|taken| taken.then_some(slot)).map_err(|e| {
            Error::caused(ErrorKind::Precondition, format!("asking whether slot {slot} is taken"), e)
        })
    };
    slots.iter().filter_map(|slot| one(slot).transpose()).collect()
}

/// Opens a pinned perf event array.
///
/// # Errors
///
/// Precondition: it is not there, or may not be opened. Usage: it is another type of map.
pub fn open_pinned(path: &std::path::Path) -> Result<MapHandle> {
    let map = MapHandle::from_pinned_path(path).map_err(|e| {
        let what = format!("opening the map pinned at {}", path.display());
        Error::caused(ErrorKind::Precondition, what, preflight::os_error(&e))
            .with_help("ls /sys/fs/bpf (bpftool map) shows what is pinned; it needs root")
    })?;
    match map.map_type() {
        libbpf_rs::MapType::PerfEventArray => Ok(map),
        other => Err(Error::usage(format!(
            "{}: a perf event array is read, and this map is a {other:?}",
            path.display()
        ))),
    }
}

/// The name a map was made with.
pub fn name_of(map: &MapHandle) -> String {
    map.name().to_string_lossy().into_owned()
}

/// The map's descriptor, kept.
///
/// # Errors
///
/// No descriptor is to be had.
pub fn keep(map: &impl AsFd) -> Result<std::os::fd::OwnedFd> {
    map.as_fd()
        .try_clone_to_owned()
        .map_err(|e| Error::caused(ErrorKind::Runtime, "duplicating the descriptor of a map", e))
}
