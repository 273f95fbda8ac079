//! What the kernel tells of a session's own programs: their code, where it lies, and its types.

use std::{collections::BTreeSet, os::fd::AsFd};

use libbpf_rs::query::{BtfInfoIter, ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};

use super::{Probes, loaded::fdinfo};

/// What recordings say of a program (`struct bpf_prog_info`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFacts {
    /// Its kind (`BPF_PROG_TYPE_*`).
    pub kind: u32,
    /// Its number in the kernel.
    pub id: u32,
    /// What its code is known by.
    pub tag: [u8; 8],
    /// Its name, as far as the kernel keeps it.
    pub name: Vec<u8>,
    /// When it was loaded: CLOCK_BOOTTIME nanoseconds.
    pub loaded: u64,
    /// Who loaded it.
    pub uid: u32,
    /// The maps that it uses.
    pub maps: Vec<u32>,
    /// Its machine code.
    pub code: Vec<u8>,
    /// Where each of its functions lies; zeros, or nothing, where kernel addresses are hidden.
    pub addresses: Vec<u64>,
    /// How long each is.
    pub lens: Vec<u32>,
    /// What each is known by.
    pub tags: Vec<[u8; 8]>,
    /// Each function's first instruction, and its type.
    pub functions: Vec<[u32; 2]>,
    /// Instruction, file's name, text, and line and column of each line (`struct bpf_line_info`).
    pub lines: Vec<[u32; 4]>,
    /// Where each line's code lies.
    pub line_addresses: Vec<u64>,
    /// The number of its types.
    pub types: u32,
    /// Instructions that the verifier went through.
    pub verified: u32,
}

impl Probes {
    /// What the kernel tells of all programs of this session; none without the right to ask.
    pub fn facts(&self) -> Vec<ProgramFacts> {
        let each = self.loaded.iter().flat_map(|loaded| loaded.object.progs()).chain(self.base.progs());
        // Those that were not loaded have no descriptor.
        let ours: BTreeSet<u64> =
            each.filter(|p| p.autoload()).filter_map(|p| fdinfo(p.as_fd(), "prog_id:")).collect();
        let options = ProgInfoQueryOptions::default()
            .include_jited_prog_insns(true)
            .include_map_ids(true)
            .include_line_info(true)
            .include_func_info(true)
            .include_jited_line_info(true)
            .include_jited_func_lens(true)
            .include_prog_tags(true)
            .include_jited_ksyms(true);
        let all = ProgInfoIter::with_query_opts(options);
        all.filter(|info| ours.contains(&u64::from(info.id))).map(facts).collect()
    }
}

/// The types (BTF) of these programs, by their numbers.
pub fn types(programs: &[ProgramFacts]) -> Vec<(u32, Vec<u8>)> {
    let wanted: BTreeSet<u32> = programs.iter().map(|p| p.types).filter(|id| *id != 0).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    BtfInfoIter::default().filter(|info| wanted.contains(&info.id)).map(|info| (info.id, info.btf)).collect()
}

fn facts(info: ProgramInfo) -> ProgramFacts {
    ProgramFacts {
        kind: info.ty as u32,
        id: info.id,
        tag: info.tag.0,
        name: info.name.into_encoded_bytes(),
        loaded: info.load_time.as_nanos() as u64,
        uid: info.created_by_uid,
        maps: info.map_ids,
        code: info.jited_prog_insns,
        addresses: info.jited_ksyms.iter().map(|address| address.addr() as u64).collect(),
        lens: info.jited_func_lens,
        tags: info.prog_tags.iter().map(|tag| tag.0).collect(),
        functions: info.func_info.iter().map(|f| [f.insn_off, f.type_id]).collect(),
        lines: info
            .line_info
            .iter()
            .map(|l| [l.insn_off, l.file_name_off, l.line_off, l.line_num << 10 | l.line_col])
            .collect(),
        line_addresses: info.jited_line_info.iter().map(|address| address.addr() as u64).collect(),
        types: info.btf_id,
        verified: info.verified_insns,
    }
}
