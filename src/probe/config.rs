//! A probe's configuration: `struct tracer_config`, set by member names that are found in the object's BTF.

use std::{collections::HashMap, sync::OnceLock};

use libbpf_rs::btf::{
    Btf, HasSize,
    types::{MemberAttr, Struct},
};

use super::object::OBJECT;
use crate::{Error, ErrorKind, Result};

/// Offset and size of each member, as clang laid them out.
type Layout = HashMap<String, (usize, usize)>;

/// The members of `struct tracer_config`, read once from the object's own BTF: no second description of it
/// stands on this side.
fn layout() -> Result<&'static Layout> {
    static LAYOUT: OnceLock<Option<Layout>> = OnceLock::new();
    LAYOUT.get_or_init(read_layout).as_ref().ok_or_else(|| {
        Error::new(
            ErrorKind::Runtime,
            "the BPF object inside this program has no struct tracer_config in its BTF",
        )
    })
}

fn read_layout() -> Option<Layout> {
    let btf = Btf::from_raw("tracer", OBJECT).ok()??;
    let config: Struct<'_> = btf.type_by_name("tracer_config")?;
    let total = config.size();
    let starts: Vec<(String, usize)> = config
        .iter()
        .filter_map(|m| {
            let name = m.name?.to_str()?.to_owned();
            let MemberAttr::Normal { offset } = m.attr else { return None };
            Some((name, offset as usize / 8))
        })
        .collect();
    let ends = starts.iter().skip(1).map(|(_, start)| *start).chain([total]);
    Some(starts.iter().zip(ends).map(|((name, start), end)| (name.clone(), (*start, end - start))).collect())
}

/// The bytes of a configuration in the making.
pub struct Config {
    bytes: Vec<u8>,
    layout: &'static Layout,
}

impl Config {
    /// A configuration of zeros, for a variable of `len` bytes.
    pub fn zeroed(len: usize) -> Result<Config> {
        Ok(Config { bytes: vec![0; len], layout: layout()? })
    }

    /// Sets a member. A name that the C side lacks, or bytes that do not fit, are a fault of this crate.
    pub fn set(&mut self, member: &str, value: &[u8]) -> &mut Config {
        let (at, size) = self.layout.get(member).copied().unwrap_or((0, 0));
        assert!(
            value.len() <= size && at + size <= self.bytes.len(),
            "tracer_config has no room for {member}"
        );
        self.bytes[at..at + value.len()].copy_from_slice(value);
        self
    }

    /// Sets a 32-bit member.
    pub fn set_u32(&mut self, member: &str, value: u32) -> &mut Config {
        self.set(member, &value.to_ne_bytes())
    }

    /// Sets a 64-bit member.
    pub fn set_u64(&mut self, member: &str, value: u64) -> &mut Config {
        self.set(member, &value.to_ne_bytes())
    }

    /// Sets an array of 32-bit numbers from its first element on.
    pub fn set_u32s(&mut self, member: &str, values: &[u32]) -> &mut Config {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        self.set(member, &bytes)
    }

    /// The finished bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_where_clang_put_them() {
        let layout = layout().unwrap();
        assert_eq!(layout["probe"], (0, 4));
        assert_eq!(layout["excluded"].1, 64 * 4);
        assert_eq!(layout["comm_next"].1, 256 * 4);
        let mut config = Config::zeroed(2048).unwrap();
        config.set_u32("probes", 7);
        assert_eq!(config.bytes()[4..8], 7u32.to_ne_bytes());
    }

    #[test]
    #[should_panic(expected = "no room for nonsense")]
    fn unknown_members_are_a_fault() {
        Config::zeroed(2048).unwrap().set_u32("nonsense", 1);
    }
}
