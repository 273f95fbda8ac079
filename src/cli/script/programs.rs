//! The BPF programs that a recording tells of, as the lines that perf makes of them: each function's name and place.
//!
//! A program is a `struct bpf_prog_info` (include/uapi/linux/bpf.h), whose pointers say where in the bytes behind it the
//! arrays lie (tools/perf/util/bpf-utils.c).

use std::{collections::BTreeMap, io::Write as _};

use tracer::{
    perf_data::{
        Endian, Feature,
        feature::{BpfProgram, id},
        read::Info,
    },
    schema::btf::Btf,
};

use super::escape::escape;

/// The types of a recording's programs, by their numbers.
pub struct Types<'a>(BTreeMap<u32, Btf<'a>>);

impl<'a> Types<'a> {
    /// Those that the recording holds.
    pub fn of(info: &'a Info) -> Types<'a> {
        let all = match info.feature(id::BPF_BTF) {
            Some(Feature::BpfBtf(all)) => all.as_slice(),
            _ => &[],
        };
        Types(all.iter().filter_map(|(id, bytes)| Some((*id, Btf::parse(bytes)?))).collect())
    }

    /// Appends a program's lines: its number, and the name, the address and the size of each of its functions.
    pub fn program(&self, program: &BpfProgram, endian: Endian, out: &mut Vec<u8>) {
        let program = Program { info: &program.info, data: &program.data, endian };
        let functions = program.half(104);
        // perf says nothing of a program whose arrays do not fit each other.
        let fit = program.half(108) == functions && program.half(180) == functions;
        if !fit || functions > 0 && program.function(0).is_none() {
            return;
        }
        let (alone, types) = (functions == 1, self.0.get(&program.half(128)));
        let _ = write!(out, "# bpf_prog_info {}:{}", program.half(4), if alone { "" } else { "\n" });
        let there = (0..functions as usize).map_while(|nth| Some((nth, program.function(nth)?)));
        for (nth, (tag, address, size)) in there {
            if !alone {
                let _ = write!(out, "# \tsub_prog {nth}:");
            }
            let _ = write!(out, " bpf_prog_{tag}");
            if let Some(name) = program.name(nth, alone, types) {
                out.push(b'_');
                escape(&name, out);
            }
            let _ = writeln!(out, " addr {address:#x} size {size}");
        }
    }
}

/// One program's bytes.
struct Program<'a> {
    info: &'a [u8],
    data: &'a [u8],
    endian: Endian,
}

impl Program<'_> {
    /// A number of four bytes, 0 where the kernel did not know it yet.
    fn half(&self, at: usize) -> u32 {
        self.endian.u32_at(self.info, at).unwrap_or(0)
    }

    /// Where an element of an array lies: the pointer to it, and how many bytes each has.
    fn element(&self, pointer: usize, nth: usize, bytes: usize) -> Option<usize> {
        let first = usize::try_from(self.endian.u64_at(self.info, pointer)?).ok()?;
        first.checked_add(nth.checked_mul(bytes)?)
    }

    /// A function's tag, address and size; `None` where an array does not go so far.
    fn function(&self, nth: usize) -> Option<(String, u64, u32)> {
        let tag = self.data.get(self.element(184, nth, 8)?..)?.first_chunk::<8>()?;
        let tag = tag.iter().map(|b| format!("{b:02x}")).collect();
        let address = self.endian.u64_at(self.data, self.element(112, nth, 8)?)?;
        let size = self.endian.u32_at(self.data, self.element(120, nth, 4)?)?;
        Some((tag, address, size))
    }

    /// A function's name: by the types, if the recording has them, else the one that a program of one function has.
    fn name(&self, nth: usize, alone: bool, types: Option<&Btf<'_>>) -> Option<Vec<u8>> {
        if let Some(types) = types {
            let at = self.element(136, nth, self.half(132) as usize)?;
            let id = self.endian.u32_at(self.data, at.checked_add(4)?)?;
            return types.function(id).map(|name| name.as_bytes().to_vec());
        }
        if !alone {
            return Some(b"F".to_vec());
        }
        let name: Vec<u8> = self.info.iter().skip(64).take(16).copied().take_while(|b| *b != 0).collect();
        (!name.is_empty()).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[u8] = b"\0probe\0claim\0";

    /// Types of which 2 and 3 are the functions `probe` and `claim`.
    fn btf() -> Vec<u8> {
        let mut types: Vec<u8> = Vec::new();
        // void (void), and two functions of that type.
        for word in [0, 13 << 24, 0, 1, 12 << 24, 1, 7, 12 << 24, 1u32] {
            types.extend(word.to_le_bytes());
        }
        let mut out = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types.len() as u32, types.len() as u32, NAMES.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        [out, types, NAMES.to_vec()].concat()
    }

    /// A program with these functions, each by its type's number, and arrays for so many.
    fn program(ids: &[u32], told: u32, name: &[u8]) -> BpfProgram {
        let mut info = vec![0; 232];
        let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
        let count = ids.len() as u64;
        // Addresses, sizes, tags, then what tells of functions.
        let starts = [(112, 0), (120, 8 * count), (184, 12 * count), (136, 20 * count)];
        starts.iter().for_each(|(at, start)| put(*at, &start.to_le_bytes()));
        for (at, number) in [(4, 77), (104, told), (108, told), (180, told), (128, 5), (132, 8)] {
            put(at, &u32::to_le_bytes(number));
        }
        put(64, name);
        let mut data = Vec::new();
        (0..count).for_each(|nth| data.extend((0x1000 + nth).to_le_bytes()));
        (0..count).for_each(|nth| data.extend((40 + nth as u32).to_le_bytes()));
        (0..count).for_each(|nth| data.extend([nth as u8 + 1; 8]));
        ids.iter().for_each(|id| [0, *id].iter().for_each(|word| data.extend(word.to_le_bytes())));
        BpfProgram { arrays: 0, info, data }
    }

    fn lines(types: &Types<'_>, program: &BpfProgram) -> String {
        let mut out = Vec::new();
        types.program(program, Endian::Little, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn as_perf_prints_them() {
        let (bytes, none) = (btf(), Types(BTreeMap::new()));
        let types = Types(BTreeMap::from([(5, Btf::parse(&bytes).unwrap())]));
        let one = program(&[3], 1, b"short");
        assert_eq!(
            lines(&types, &one),
            "# bpf_prog_info 77: bpf_prog_0101010101010101_claim addr 0x1000 size 40\n"
        );
        assert_eq!(
            lines(&none, &one),
            "# bpf_prog_info 77: bpf_prog_0101010101010101_short addr 0x1000 size 40\n"
        );
        assert_eq!(
            lines(&none, &program(&[3], 1, b"")),
            "# bpf_prog_info 77: bpf_prog_0101010101010101 addr 0x1000 size 40\n"
        );
        let two = program(&[2, 3], 2, b"short");
        let told = |first: &str, second: &str| {
            format!(
                "# bpf_prog_info 77:\n\
                 # \tsub_prog 0: bpf_prog_0101010101010101_{first} addr 0x1000 size 40\n\
                 # \tsub_prog 1: bpf_prog_0202020202020202_{second} addr 0x1001 size 41\n"
            )
        };
        assert_eq!(lines(&types, &two), told("probe", "claim"));
        assert_eq!(lines(&none, &two), told("F", "F"));
    }

    #[test]
    fn arrays_that_are_not_there() {
        let none = Types(BTreeMap::new());
        // As many as there are bytes for.
        assert!((2..8).contains(&lines(&none, &program(&[2, 3], u32::MAX, b"")).lines().count()));
        let mut odd = program(&[2], 1, b"");
        odd.info[108] = 2;
        assert_eq!(lines(&none, &odd), "");
        let (bytes, whole) = (btf(), program(&[2, 3], 2, b"short"));
        let types = Types(BTreeMap::from([(5, Btf::parse(&bytes).unwrap())]));
        for length in 0..whole.data.len() {
            let cut = BpfProgram { data: whole.data[..length].to_vec(), ..whole.clone() };
            assert!(lines(&types, &cut).lines().all(|line| line.starts_with("# ")), "{length}");
        }
        for length in 0..whole.info.len() {
            lines(&types, &BpfProgram { info: whole.info[..length].to_vec(), ..whole.clone() });
        }
    }
}
