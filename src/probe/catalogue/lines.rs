//! Lines of a large table that may be wanted, found without a look at each of the others.

use memchr::{memchr, memmem, memrchr};

/// The lines that hold one of these pieces, in the table's order; all of them for an empty piece. Lines that are no
/// UTF-8 have no name that could be asked for.
pub fn lines_with<'t>(table: &'t [u8], pieces: &[&str]) -> impl Iterator<Item = &'t str> + use<'t> {
    let mut starts: Vec<usize> = pieces.iter().flat_map(|piece| starts(table, piece.as_bytes())).collect();
    if pieces.len() > 1 {
        starts.sort_unstable();
        starts.dedup();
    }
    starts.into_iter().filter_map(|start| std::str::from_utf8(&table[start..end(table, start)]).ok())
}

/// What of a pattern must stand in every name that matches.
pub fn literal(pattern: &str) -> &str {
    pattern.split(['*', '?']).max_by_key(|piece| piece.len()).unwrap_or_default()
}

/// Where the lines begin that hold a piece.
fn starts(table: &[u8], piece: &[u8]) -> Vec<usize> {
    let finder = memmem::Finder::new(piece);
    let (mut starts, mut from) = (Vec::new(), 0);
    while let Some(at) = table.get(from..).filter(|rest| !rest.is_empty()).and_then(|rest| finder.find(rest))
    {
        let start = memrchr(b'\n', &table[from..from + at]).map_or(from, |newline| from + newline + 1);
        starts.push(start);
        from = end(table, start) + 1;
    }
    starts
}

fn end(table: &[u8], start: usize) -> usize {
    memchr(b'\n', &table[start..]).map_or(table.len(), |length| start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(table: &str, pieces: &[&str]) -> String {
        lines_with(table.as_bytes(), pieces).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn each_line_with_a_piece_is_found_once() {
        let table = "ab\nba ba\n\nxx\nb";
        assert_eq!(with(table, &["b"]), "ab|ba ba|b");
        assert_eq!(with(table, &["xx", "ab"]), "ab|xx");
        assert_eq!(with(table, &["a", "b"]), "ab|ba ba|b");
        assert_eq!(with(table, &[""]), "ab|ba ba||xx|b");
        assert_eq!(with("\n", &[""]), "");
        assert_eq!(with("", &["", "b"]), "");
        assert_eq!(lines_with(b"a\xff\nab", &["a"]).collect::<Vec<_>>(), ["ab"]);
    }

    #[test]
    fn the_longest_literal_of_a_pattern() {
        assert_eq!(literal("tcp_*"), "tcp_");
        assert_eq!(literal("*a?bcd*"), "bcd");
        assert_eq!(literal("**"), "");
    }
}
