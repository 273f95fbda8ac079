//! CPU lists: `0-3,7` as sysfs writes them.

use std::fs;

use crate::error::{Error, ErrorKind, Result};

/// More CPUs than any kernel has (`CONFIG_NR_CPUS` ends at 8,192): a list beyond is a mistake.
const MOST: u32 = 1 << 16;

/// Reads a CPU list: numbers and ranges, comma-separated, in any order; sorted, each CPU once.
/// An empty list is no CPU at all, as sysfs says of `offline`.
///
/// # Errors
///
/// Usage, naming the part that is no number or range.
pub fn parse(list: &str) -> Result<Vec<u32>> {
    let list = list.trim();
    let mut cpus = Vec::new();
    if list.is_empty() {
        return Ok(cpus);
    }
    for part in list.split(',') {
        let part = part.trim();
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            // Stricter than `u32::from_str`, which takes a plus sign.
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u32>().ok().filter(|&cpu| digits && cpu < MOST)
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
            (Some(_), Some(_)) => return Err(bad(list, part, "runs backwards")),
            _ => return Err(bad(list, part, "is not a CPU or a range of CPUs")),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The CPUs that run now (`/sys/devices/system/cpu/online`).
///
/// # Errors
///
/// Precondition, where sysfs is not there.
pub fn online() -> Result<Vec<u32>> {
    read("online")
}

/// The CPUs that this kernel could ever have (`/sys/devices/system/cpu/possible`).
///
/// # Errors
///
/// Precondition, where sysfs is not there.
pub fn possible() -> Result<Vec<u32>> {
    read("possible")
}

fn read(file: &str) -> Result<Vec<u32>> {
    let path = format!("/sys/devices/system/cpu/{file}");
    let list = fs::read_to_string(&path).map_err(|e| {
        Error::caused(ErrorKind::Precondition, format!("reading {path}"), e)
            .with_help("sysfs must be mounted on /sys")
    })?;
    parse(&list).map_err(|e| e.context(format!("reading {path}")))
}

fn bad(list: &str, part: &str, what: &str) -> Error {
    Error::usage(format!("CPU list \"{list}\": \"{part}\" {what}"))
        .with_help("write it as in 0-3,7: numbers and ranges")
}
