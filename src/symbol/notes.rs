//! What the running kernel is known by, from its ELF notes.

/// `NT_GNU_BUILD_ID`
const GNU_BUILD_ID: u32 = 3;

/// The build id of the running kernel, where it tells one.
pub fn kernel_build_id() -> Option<Vec<u8>> {
    build_id(&std::fs::read("/sys/kernel/notes").ok()?)
}

fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = notes;
    loop {
        let word = |at: usize| rest.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes);
        let (name, desc, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let desc_at = 12 + name.next_multiple_of(4);
        let id = rest.get(desc_at..desc_at.checked_add(desc)?)?;
        if kind == GNU_BUILD_ID && rest.get(12..12 + name)? == b"GNU\0" {
            return Some(id.to_vec());
        }
        rest = rest.get(desc_at + desc.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_found_among_other_notes_and_nothing_in_what_is_cut() {
        let note = |name: &[u8], kind: u32, desc: &[u8]| {
            let mut out = Vec::new();
            [name.len() as u32, desc.len() as u32, kind].iter().for_each(|n| out.extend(n.to_ne_bytes()));
            for part in [name, desc] {
                out.extend(part);
                out.resize(out.len().next_multiple_of(4), 0);
            }
            out
        };
        let notes = [note(b"Xen\0", 3, b"abcde"), note(b"GNU\0", 3, b"0123456789")].concat();
        assert_eq!(build_id(&notes).as_deref(), Some(&b"0123456789"[..]));
        (0..notes.len() - 2).for_each(|cut| assert_eq!(build_id(&notes[..cut]), None, "{cut}"));
    }
}
