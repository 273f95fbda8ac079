//! What the arguments of a USDT probe are, from the notes of its sites.

use super::{elf::Note, signature::Param};
use crate::schema::{Kind, Show};

/// The parameters of a probe whose sites are `notes`: where they differ, the wider type.
pub fn params(notes: &[&Note]) -> Vec<Param> {
    let sites: Vec<Vec<(u8, bool)>> =
        notes.iter().map(|n| n.args.split_whitespace().filter_map(argument).collect()).collect();
    let count = sites.iter().map(Vec::len).max().unwrap_or(0);
    let wider = |i: usize| sites.iter().filter_map(|args| args.get(i)).max().copied().unwrap_or((8, false));
    let param = |i: usize| {
        let (size, signed) = wider(i);
        let kind = if signed { Kind::Signed(size) } else { Kind::Unsigned(size) };
        let type_name = format!("{}{}", if signed { "s" } else { "u" }, 8 * u32::from(size));
        Param { name: format!("arg{i}"), type_name, kind, show: Show::Plain, ty: None }
    };
    (0..count).map(param).collect()
}

/// Bytes and sign of `-4@%edi`; what has no `@` behind its size is the rest of the argument before.
fn argument(word: &str) -> Option<(u8, bool)> {
    let size = word.split_once('@')?.0;
    let bytes: u8 = size.trim_start_matches('-').parse().ok()?;
    matches!(bytes, 1 | 2 | 4 | 8).then(|| (bytes, size.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_by_their_sizes() {
        let note = |args: &str| Note { provider: "p".into(), name: "n".into(), args: args.into() };
        let (one, two) = (note("8@%rdi -4@%esi 8@[sp, 16]"), note("8@%rdi -8@%rsi"));
        let kinds =
            |notes: &[&Note]| params(notes).into_iter().map(|p| (p.type_name, p.kind)).collect::<Vec<_>>();
        let (u64, s32) = (("u64".to_owned(), Kind::Unsigned(8)), ("s32".to_owned(), Kind::Signed(4)));
        assert_eq!(kinds(&[&one]), [u64.clone(), s32, u64.clone()]);
        assert_eq!(kinds(&[&one, &two]), [u64.clone(), ("s64".to_owned(), Kind::Signed(8)), u64]);
        assert_eq!(kinds(&[&note("")]), []);
    }
}
