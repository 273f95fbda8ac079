//! What is mapped where in a process, from `/proc/PID/maps`.

use std::sync::Arc;

/// The most mappings of one process that are kept.
const MOST: usize = 1 << 14;

/// A mapped file with code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind its last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's device and inode.
    pub file: (u32, u32, u64),
    /// The path, as the process names it.
    pub path: Arc<str>,
    /// The file's build id in hexadecimal.
    pub build_id: Option<Arc<str>>,
}

/// The executable mappings of files; lines that are none are passed over.
pub(super) fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(mapping).take(MOST).collect()
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let (word, behind) = rest.split_once(' ')?;
        rest = behind.trim_start();
        Some(word)
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let executable = word()?.as_bytes().get(2) == Some(&b'x');
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok()?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    (executable && rest.starts_with('/')).then_some(())?;
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        file: (number(major)?, number(minor)?, inode),
        // As the kernel writes what is no longer in its folder.
        path: rest.trim_end_matches(" (deleted)").into(),
        build_id: None,
    })
}

/// The mapping that holds an address.
pub(super) fn holding(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    mappings.iter().find(|m| (m.start..m.end).contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_lines() {
        let text = "55d0a0000000-55d0a0002000 r--p 00000000 fe:00 1234                       /usr/bin/dd\n\
            55d0a0002000-55d0a0010000 r-xp 00002000 fe:00 1234                       /usr/bin/dd\n\
            7f0000000000-7f0000100000 r-xp 00028000 00:1f 77                         /tmp/a b (deleted)\n\
            7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]\n\
            7f1000000000-7f1000001000 rwxp 00000000 00:00 0 \n\
            garbage\n7f-80 r-xp\n";
        let all = parse(text);
        let told: Vec<_> = all.iter().map(|m| (m.start, m.offset, m.file, &*m.path)).collect();
        assert_eq!(
            told,
            [
                (0x55d0_a000_2000, 0x2000, (0xfe, 0, 1234), "/usr/bin/dd"),
                (0x7f00_0000_0000, 0x28000, (0, 0x1f, 77), "/tmp/a b"),
            ]
        );
        assert_eq!(holding(&all, 0x55d0_a000_2000).map(|m| &*m.path), Some("/usr/bin/dd"));
        assert_eq!(holding(&all, 0x55d0_a001_0000), None);
        assert_eq!(holding(&all, 0), None);
    }
}
