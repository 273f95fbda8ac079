//! Our own programs as features say them: `struct bpf_prog_info` with its arrays, as perf lays them out.

use super::Symbol;
use crate::{
    perf_data::{Endian, Feature, feature::BpfProgram},
    probe::ProgramFacts,
    schema::btf::Btf,
};

const ENDIAN: Endian = Endian::NATIVE;
/// `sizeof(struct bpf_prog_info)` (`include/uapi/linux/bpf.h`), the last 12 bytes of which we have nothing for.
const INFO: usize = 232;

/// The arrays by their numbers (`enum perf_bpil_prog_info_types`, `tools/perf/util/bpf-utils.h`).
const CODE: u64 = 0;
const MAPS: u64 = 2;
const ADDRESSES: u64 = 3;
const LENS: u64 = 4;
const FUNCTIONS: u64 = 5;
const LINES: u64 = 6;
const LINE_ADDRESSES: u64 = 7;
const TAGS: u64 = 8;

/// `BPF_PROG_INFO` and `BPF_BTF` of programs and their types, where there is something to be said.
pub fn features_of(programs: &[ProgramFacts], types: &[(u32, Vec<u8>)]) -> Vec<Feature> {
    let mut all = Vec::new();
    if !programs.is_empty() {
        all.push(Feature::BpfPrograms(programs.iter().map(program).collect()));
    }
    if !types.is_empty() {
        all.push(Feature::BpfBtf(types.to_vec()));
    }
    all
}

/// The functions of programs, as far as it may be known where they lie.
pub fn symbols_of(programs: &[ProgramFacts], types: &[(u32, Vec<u8>)]) -> Vec<Symbol> {
    programs.iter().flat_map(|of| symbols(of, types)).collect()
}

fn symbols(of: &ProgramFacts, types: &[(u32, Vec<u8>)]) -> Vec<Symbol> {
    let bytes = types.iter().find(|(id, _)| *id == of.types).map(|(_, bytes)| bytes);
    let btf = bytes.and_then(|bytes| Btf::parse(bytes));
    let own = String::from_utf8_lossy(&of.name);
    let one = |(i, (address, len)): (usize, (&u64, &u32))| {
        let tag: String = of.tags.get(i)?.iter().map(|b| format!("{b:02x}")).collect();
        let named = btf.as_ref().zip(of.functions.get(i)).map_or("", |(btf, [_, id])| btf.name(*id));
        // `bpf_get_prog_name`, kernel/bpf/core.c: without types the program's own name.
        let name = if named.is_empty() { &*own } else { named };
        (*address != 0).then(|| Symbol {
            address: *address,
            len: *len,
            name: format!("bpf_prog_{tag}_{name}"),
        })
    };
    of.addresses.iter().zip(&of.lens).enumerate().filter_map(one).collect()
}

/// The arrays of a program as they are put together.
#[derive(Default)]
struct Arrays {
    present: u64,
    data: Vec<u8>,
}

impl Arrays {
    /// Adds one; its offset, and how many elements it has.
    fn add<T, const N: usize>(
        &mut self,
        number: u64,
        all: &[T],
        bytes: impl Fn(&T) -> [u8; N],
    ) -> (u64, u32) {
        if all.is_empty() {
            return (0, 0);
        }
        let at = self.data.len() as u64;
        all.iter().for_each(|one| self.data.extend_from_slice(&bytes(one)));
        // Each begins at a multiple of eight bytes.
        self.data.resize(self.data.len().next_multiple_of(8), 0);
        self.present |= 1 << number;
        (at, all.len() as u32)
    }
}

fn words<const N: usize, const BYTES: usize>(words: &[u32; N]) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    out.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
    out
}

fn program(of: &ProgramFacts) -> BpfProgram {
    let mut arrays = Arrays::default();
    // In the order of their numbers, as perf has them.
    let code = arrays.add(CODE, &of.code, |byte| [*byte]);
    let maps = arrays.add(MAPS, &of.maps, |id| id.to_ne_bytes());
    let addresses = arrays.add(ADDRESSES, &of.addresses, |address| address.to_ne_bytes());
    let lens = arrays.add(LENS, &of.lens, |len| len.to_ne_bytes());
    let functions = arrays.add(FUNCTIONS, &of.functions, words::<2, 8>);
    let lines = arrays.add(LINES, &of.lines, words::<4, 16>);
    let line_addresses = arrays.add(LINE_ADDRESSES, &of.line_addresses, |address| address.to_ne_bytes());
    let tags = arrays.add(TAGS, &of.tags, |tag| *tag);

    let mut info = Vec::with_capacity(INFO);
    let u32s = |info: &mut Vec<u8>, all: &[u32]| all.iter().for_each(|n| ENDIAN.put_u32(info, *n));
    let u64s = |info: &mut Vec<u8>, all: &[u64]| all.iter().for_each(|n| ENDIAN.put_u64(info, *n));
    u32s(&mut info, &[of.kind, of.id]);
    info.extend_from_slice(&of.tag);
    // The translated instructions are left out.
    u32s(&mut info, &[code.1, 0]);
    u64s(&mut info, &[code.0, 0, of.loaded]);
    u32s(&mut info, &[of.uid, maps.1]);
    u64s(&mut info, &[maps.0]);
    let mut name = [0; 16];
    name.iter_mut().take(15).zip(&of.name).for_each(|(to, byte)| *to = *byte);
    info.extend_from_slice(&name);
    // No device; a bit says that it is under the GPL, as all of ours are; no network namespace.
    u32s(&mut info, &[0, 1]);
    u64s(&mut info, &[0, 0]);
    u32s(&mut info, &[addresses.1, lens.1]);
    u64s(&mut info, &[addresses.0, lens.0]);
    u32s(&mut info, &[of.types, 8]);
    u64s(&mut info, &[functions.0]);
    u32s(&mut info, &[functions.1, lines.1]);
    u64s(&mut info, &[lines.0, line_addresses.0]);
    u32s(&mut info, &[line_addresses.1, 16, 8, tags.1]);
    u64s(&mut info, &[tags.0, 0, 0, 0]);
    u32s(&mut info, &[of.verified]);
    info.resize(INFO, 0);
    BpfProgram { arrays: arrays.present, info, data: arrays.data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_lie_where_the_info_says() {
        let of = ProgramFacts {
            kind: 17,
            id: 42,
            name: b"a_name_that_is_too_long".to_vec(),
            code: vec![0xc3; 5],
            addresses: vec![0xffff_ffff_c000_0000],
            lens: vec![5],
            functions: vec![[0, 7]],
            lines: vec![[1, 2, 3, 4 << 10 | 5]],
            tags: vec![[9; 8]],
            types: 11,
            verified: 99,
            ..ProgramFacts::default()
        };
        let symbol = Symbol {
            address: 0xffff_ffff_c000_0000,
            len: 5,
            name: "bpf_prog_0909090909090909_a_name_that_is_too_long".into(),
        };
        assert_eq!(symbols_of(std::slice::from_ref(&of), &[]), [symbol]);
        let BpfProgram { arrays, info, data } = program(&of);
        let u32_at = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().unwrap());
        let u64_at = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().unwrap()) as usize;
        assert_eq!((info.len(), data.len() % 8, arrays), (INFO, 0, 0b1_0111_1001));
        assert_eq!((u32_at(0), u32_at(4), u32_at(16), &info[64..80]), (17, 42, 5, &b"a_name_that_is_\0"[..]));
        assert_eq!(data[u64_at(24)..][..5], [0xc3; 5]);
        assert_eq!((u32_at(104), u32_at(108), u32_at(128), u32_at(216)), (1, 1, 11, 99));
        assert_eq!(data[u64_at(112)..][..8], of.addresses[0].to_ne_bytes());
        assert_eq!(data[u64_at(120)..][..4], 5u32.to_ne_bytes());
        assert_eq!((u32_at(132), u32_at(144), u32_at(148), u32_at(172), u32_at(176)), (8, 1, 1, 16, 8));
        assert_eq!(data[u64_at(136)..][4..8], 7u32.to_ne_bytes());
        assert_eq!(data[u64_at(152)..][12..16], (4u32 << 10 | 5).to_ne_bytes());
        assert_eq!((u32_at(168), u32_at(180)), (0, 1));
        assert_eq!(data[u64_at(184)..][..8], [9; 8]);
    }
}
