//! The kernel's own table of symbols, `/proc/kallsyms`: functions of the kernel, of its modules, and of BPF.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::Frame;

/// How soon the table is read again for an address that it does not have.
const AGAIN: Duration = Duration::from_secs(1);
/// The furthest from its start that an address still belongs to a symbol: behind the last one of the kernel's text, of
/// a module or of all there is something else, or nothing.
const FURTHEST: u64 = 1 << 20;

/// Functions by address.
pub(super) struct Table {
    /// By address: where in `names` the name is, and which of the modules it is of.
    functions: Vec<(u64, u32, u16)>,
    /// Names, each behind its length.
    names: Vec<u8>,
    /// The first is the kernel itself.
    modules: Vec<Arc<str>>,
    read: Instant,
}

impl Table {
    /// That of the running kernel; `None` where it shows no addresses to us.
    pub fn read() -> Option<Table> {
        Table::parse(&std::fs::read("/proc/kallsyms").ok()?)
    }

    /// A table of lines `ADDRESS TYPE NAME [MODULE]`; others are passed over. `None` without any function.
    pub fn parse(text: &[u8]) -> Option<Table> {
        let mut table = Table {
            functions: Vec::new(),
            names: Vec::new(),
            modules: vec!["".into()],
            read: Instant::now(),
        };
        for line in text.split(|b| *b == b'\n') {
            let mut words = line.split(|b| matches!(b, b' ' | b'\t')).filter(|w| !w.is_empty());
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let address = std::str::from_utf8(address).ok().and_then(|a| u64::from_str_radix(a, 16).ok());
            let function = matches!(kind, b"t" | b"T" | b"w" | b"W") && name.len() <= 255;
            let (Some(address), true, Ok(at)) =
                (address.filter(|a| *a != 0), function, u32::try_from(table.names.len()))
            else {
                continue;
            };
            let module = words.next().map_or(0, |word| table.module(word));
            table.names.push(name.len() as u8);
            table.names.extend_from_slice(name);
            table.functions.push((address, at, module));
        }
        // Of names for one address the first counts, as in the kernel's own look-up.
        table.functions.sort_by_key(|(address, ..)| *address);
        table.functions.dedup_by_key(|(address, ..)| *address);
        (!table.functions.is_empty()).then_some(table)
    }

    fn module(&mut self, word: &[u8]) -> u16 {
        let name = String::from_utf8_lossy(word);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let known = self.modules.iter().rposition(|m| **m == *name);
        let at = known.unwrap_or_else(|| {
            self.modules.push(name.into());
            self.modules.len() - 1
        });
        u16::try_from(at).unwrap_or(0)
    }

    /// A frame for each address.
    pub fn find(&mut self, addresses: &[u64]) -> Vec<Frame> {
        let mut found: Vec<Frame> = addresses.iter().map(|a| self.one(*a)).collect();
        // A module may have come, or a program.
        if found.iter().any(|frame| frame.symbol.is_none()) && self.read.elapsed() >= AGAIN {
            self.read = Instant::now();
            if let Some(table) = Table::read() {
                *self = table;
                found = addresses.iter().map(|a| self.one(*a)).collect();
            }
        }
        found
    }

    fn one(&self, address: u64) -> Frame {
        let behind = self.functions.partition_point(|(start, ..)| *start <= address);
        let Some(&(start, at, module)) = behind.checked_sub(1).and_then(|at| self.functions.get(at)) else {
            return Frame::bare(address);
        };
        if address - start > FURTHEST {
            return Frame::bare(address);
        }
        let at = at as usize;
        let name = self.names.get(at + 1..at + 1 + usize::from(self.names[at])).unwrap_or_default();
        Frame {
            address,
            symbol: Some(String::from_utf8_lossy(name).into()),
            offset: address - start,
            module: self.modules.get(usize::from(module)).filter(|m| !m.is_empty()).cloned(),
            ..Frame::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"ffffffff81000000 T _text\n\
        ffffffff81000000 T _stext\n\
        ffffffff81000100 t do_one_thing\n\
        ffffffff81000080 D some_data\n\
        ffffffffc0001000 t ext4_sync_file\t[ext4]\n\
        not a line\n\
        0000000000000000 A fixed_percpu\n\
        ffffffffc0002000 t bpf_prog_6deef7357e7b4530_write\t[bpf]\n";

    fn told(table: &Table, address: u64) -> Option<(String, u64, Option<String>)> {
        let frame = table.one(address);
        assert_eq!(frame.address, address);
        Some((frame.symbol?.into(), frame.offset, frame.module.map(|m| (*m).into())))
    }

    #[test]
    fn functions_of_the_kernel_its_modules_and_of_programs() {
        let table = Table::parse(TEXT).unwrap();
        let of = |address| told(&table, address);
        assert_eq!(of(0xffff_ffff_8100_0000), Some(("_text".into(), 0, None)));
        assert_eq!(of(0xffff_ffff_8100_0090), Some(("_text".into(), 0x90, None)), "data has no frames");
        assert_eq!(of(0xffff_ffff_8100_0123), Some(("do_one_thing".into(), 0x23, None)));
        assert_eq!(of(0xffff_ffff_c000_1004), Some(("ext4_sync_file".into(), 4, Some("ext4".into()))));
        assert_eq!(of(0xffff_ffff_c000_2001).unwrap().2.as_deref(), Some("bpf"));
        assert_eq!(of(0xffff_ffff_80ff_ffff), None, "before the first");
        assert_eq!(of(u64::MAX), None, "far behind the last");
        assert_eq!(of(0xffff_ffff_8200_0000), None, "far behind the kernel's text");
        assert_eq!(of(0), None);
    }

    #[test]
    fn a_kernel_that_hides_its_addresses_has_no_table() {
        assert!(Table::parse(b"0000000000000000 T _text\n0000000000000000 t vfs_write\n").is_none());
        assert!(Table::parse(b"").is_none());
        assert!(Table::parse(&[0xff; 1000]).is_none());
    }

    #[test]
    fn the_running_kernels_own() {
        let Some(mut table) = Table::read() else {
            assert!(!nix::unistd::geteuid().is_root(), "root sees no symbols");
            return;
        };
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let line = text.lines().find(|l| l.ends_with(" T vfs_write")).unwrap();
        let address = u64::from_str_radix(&line[..16], 16).unwrap();
        let found = table.find(&[address, address + 7]);
        assert_eq!((found[0].symbol.as_deref(), found[0].offset), (Some("vfs_write"), 0));
        assert_eq!((found[1].symbol.as_deref(), found[1].offset), (Some("vfs_write"), 7));
    }
}
