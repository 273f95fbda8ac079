//! What hooks the call that the benchmark traces.

use std::io;

use syscalls::Sysno;

use super::super::{hook::How, resolve::WRAPPER};

/// What hooks the traced call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// fentry on the function behind write(2).
    Fentry,
    /// A kprobe there.
    Kprobe,
    /// The tracepoint `syscalls:sys_enter_write`.
    Tracepoint,
    /// The raw tracepoint `sys_enter`, which every system call passes.
    RawTracepoint,
    /// A uprobe on [`traced_function`].
    Uprobe,
}

impl Hook {
    /// All, in the order in which a call pays for them.
    pub const ALL: [Hook; 5] =
        [Hook::Fentry, Hook::Kprobe, Hook::RawTracepoint, Hook::Tracepoint, Hook::Uprobe];

    pub(super) fn program(self) -> &'static str {
        match self {
            Hook::Fentry => "bench_fentry",
            Hook::Kprobe | Hook::Uprobe => "bench_kprobe",
            Hook::Tracepoint => "bench_tracepoint",
            Hook::RawTracepoint => "bench_raw_tp",
        }
    }

    pub(super) fn how(self) -> io::Result<How> {
        let symbol = format!("{WRAPPER}write");
        Ok(match self {
            Hook::Fentry => How::SyscallFentry { symbol },
            Hook::Kprobe => How::SyscallKprobe { symbol },
            Hook::Tracepoint => {
                How::Tracepoint { category: "syscalls".into(), name: "sys_enter_write".into() }
            }
            Hook::RawTracepoint => How::SyscallRawTp { number: Sysno::write.id() as u32 },
            Hook::Uprobe => {
                let (path, offset) = place_of(traced_function as fn() as usize as u64)?;
                How::Uprobe { path, symbol: String::new(), offset }
            }
        })
    }
}

/// What a uprobe of the benchmark is on.
#[inline(never)]
pub fn traced_function() {
    // Or it would be found to do nothing, and calls of it be left out.
    std::hint::black_box(());
}

/// The file that is mapped at an address of this process, and where in it that is.
fn place_of(address: u64) -> io::Result<(String, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let place = maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let offset = number(words.nth(1)?)?;
        let path = words.nth(2)?;
        (start..end).contains(&address).then(|| (path.to_owned(), address - start + offset))
    });
    place.ok_or_else(|| io::ErrorKind::NotFound.into())
}
