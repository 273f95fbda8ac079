//! Names matched against patterns with `*` and `?`.

/// Whether `name` matches `pattern` as a whole: `*` is any run of bytes, `?` any one byte.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on after a mismatch: behind the last `*`, which then takes one byte more.
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                retry = Some((p, n));
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut retry {
                Some((behind, taken)) => {
                    *taken += 1;
                    (p, n) = (*behind, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook matcher, to judge the other by.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.first(), text.first()) {
            (None, None) => true,
            (Some(b'*'), _) => naive(&pattern[1..], text) || (!text.is_empty() && naive(pattern, &text[1..])),
            (Some(b'?'), Some(_)) => naive(&pattern[1..], &text[1..]),
            (Some(p), Some(t)) if p == t => naive(&pattern[1..], &text[1..]),
            _ => false,
        }
    }

    /// Every text of up to `length` letters of an alphabet.
    fn all(alphabet: &str, length: usize) -> Vec<String> {
        let mut texts = vec![String::new()];
        let mut last = texts.clone();
        for _ in 0..length {
            last = last.iter().flat_map(|t| alphabet.chars().map(move |c| format!("{t}{c}"))).collect();
            texts.extend(last.iter().cloned());
        }
        texts
    }

    #[test]
    fn it_matches_as_the_naive_matcher_does() {
        let names = all("ab", 6);
        for pattern in all("a*?b", 4) {
            for name in &names {
                assert_eq!(
                    matches(&pattern, name),
                    naive(pattern.as_bytes(), name.as_bytes()),
                    "{pattern} on {name}"
                );
            }
        }
    }

    #[test]
    fn many_stars_do_not_take_long() {
        assert!(!matches(&"*a".repeat(50), &"a".repeat(49)));
        assert!(!matches(&format!("{}b", "*a".repeat(40)), &"a".repeat(100_000)));
    }
}
