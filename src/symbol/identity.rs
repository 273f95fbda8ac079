//! Which program it is that runs under a process id, as ids come again and processes call execve.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

/// How long what was found is taken to be so.
const FRESH: Duration = Duration::from_millis(200);
/// The most processes that are kept.
const MOST: usize = 1 << 12;

/// Identities by process id.
#[derive(Debug, Default)]
pub(super) struct Identities {
    known: HashMap<u32, (u64, Instant)>,
}

impl Identities {
    /// What stands for the program that runs as this process, or that ran last, as far as that was seen.
    pub fn of(&mut self, tgid: u32) -> u64 {
        let now = Instant::now();
        if let Some((identity, checked)) = self.known.get(&tgid)
            && now.duration_since(*checked) < FRESH
        {
            return *identity;
        }
        if self.known.len() >= MOST && !self.known.contains_key(&tgid) {
            self.known.clear();
        }
        let stat = std::fs::read(format!("/proc/{tgid}/stat")).ok();
        let last = self.known.get(&tgid).map(|(identity, _)| *identity);
        let identity = stat.and_then(|s| identity(tgid, &s)).or(last).unwrap_or_else(|| hash((tgid, 0)));
        self.known.insert(tgid, (identity, now));
        identity
    }
}

/// From the text of `/proc/PID/stat`: when it was started, and where its code and its stack begin, which no two
/// programs that a process runs one after the other have in common.
fn identity(tgid: u32, stat: &[u8]) -> Option<u64> {
    // The name before the last parenthesis may hold anything.
    let behind = stat.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(stat.get(behind + 1..)?).ok()?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Fields 22, 26 and 28 of proc_pid_stat(5); the first behind the name is the third.
    Some(hash((tgid, words.get(19)?, words.get(23)?, words.get(25)?)))
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    // 0 is the kernel.
    hasher.finish() | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_itself_until_it_is_another() {
        let mut identities = Identities::default();
        let me = identities.of(std::process::id());
        assert_eq!(identities.of(std::process::id()), me);
        assert_ne!(identities.of(1), me);
        let stat = |name: &str, code: &str| {
            format!("7 ({name}) S 1 7 7 0 -1 0 1 0 0 0 1 2 3 4 20 0 1 0 4242 99 9 1 {code} 2 70 0")
                .into_bytes()
        };
        let before = identity(7, &stat("sh", "100")).unwrap();
        assert_eq!(identity(7, &stat(") S 1 (", "100")), Some(before), "a name is no part of it");
        assert_ne!(identity(7, &stat("sh", "200")), Some(before), "another program");
        assert_ne!(identity(8, &stat("sh", "100")), Some(before));
        for bad in ["", "7 (sh", "7 (sh) S 1"] {
            assert_eq!(identity(7, bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut identities = Identities::default();
        // Ids beyond the largest that there can be.
        (0..2 * MOST as u32).for_each(|i| _ = identities.of(u32::MAX - i));
        assert!(identities.known.len() <= MOST);
    }
}
