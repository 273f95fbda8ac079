//! The constant expressions of C that stand in a tracepoint's print fmt, and what else is read there.
//!
//! **Invariants.** Any text ends in a value or `None`: every token costs one of a bounded number of steps, and
//! parentheses nest to a bounded depth.

/// How deep parentheses may nest: the kernel's GFP flags come to 20.
const DEPTH: u32 = 64;

/// A place in a text, and how much may still be read.
pub(super) struct Scan<'a> {
    text: &'a str,
    steps: u32,
    names: &'a dyn Fn(&str) -> Option<u64>,
}

impl<'a> Scan<'a> {
    /// Begins at the start of `text`; `names` knows the constants that have names.
    pub fn new(text: &'a str, steps: u32, names: &'a dyn Fn(&str) -> Option<u64>) -> Scan<'a> {
        Scan { text, steps, names }
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a str {
        self.text
    }

    /// Goes on from another place.
    pub fn jump(&mut self, to: &'a str) {
        self.text = to;
    }

    /// Whether there were too many steps.
    pub fn spent(&self) -> bool {
        self.steps == 0
    }

    /// Goes on behind the next `end`.
    pub fn past(&mut self, end: char) -> Option<()> {
        for (at, c) in self.text.char_indices() {
            self.steps = self.steps.checked_sub(1)?;
            if c == end {
                self.text = &self.text[at + c.len_utf8()..];
                return Some(());
            }
        }
        None
    }

    /// One step; `None` once there were too many.
    fn step(&mut self) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        self.text = self.text.trim_start();
        Some(())
    }

    /// Takes `token` if it comes next.
    pub fn took(&mut self, token: &str) -> Option<bool> {
        self.step()?;
        let rest = self.text.strip_prefix(token);
        self.text = rest.unwrap_or(self.text);
        Some(rest.is_some())
    }

    /// Takes `token`, or fails.
    pub fn take(&mut self, token: &str) -> Option<()> {
        self.took(token)?.then_some(())
    }

    /// A name.
    pub fn word(&mut self) -> Option<&'a str> {
        self.step()?;
        let end =
            self.text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        let first = word.chars().next()?;
        (!first.is_ascii_digit()).then(|| {
            self.text = rest;
            word
        })
    }

    /// One string or several that stand beside each other.
    pub fn string(&mut self) -> Option<String> {
        let mut out = String::new();
        self.take("\"")?;
        loop {
            let mut chars = self.text.char_indices();
            loop {
                self.steps = self.steps.checked_sub(1)?;
                match chars.next()? {
                    (at, '"') => {
                        self.text = &self.text[at + 1..];
                        break;
                    }
                    (_, '\\') => out.push(chars.next()?.1),
                    (_, c) => out.push(c),
                }
            }
            if !self.took("\"")? {
                return Some(out);
            }
        }
    }

    /// A constant expression, up to what is no part of one. Its 64 bits wrap, as in C.
    pub fn constant(&mut self) -> Option<u64> {
        self.binary(0, DEPTH)
    }

    /// Operators that bind at least as tightly as `level`.
    fn binary(&mut self, level: usize, depth: u32) -> Option<u64> {
        const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*"]];
        let Some(operators) = LEVELS.get(level) else { return self.unary(depth) };
        let mut left = self.binary(level + 1, depth)?;
        loop {
            self.step()?;
            if self.text.starts_with("||") || self.text.starts_with("&&") {
                return Some(left);
            }
            let Some(operator) = operators.iter().find(|o| self.text.starts_with(**o)) else {
                return Some(left);
            };
            self.take(operator)?;
            let right = self.binary(level + 1, depth)?;
            left = match *operator {
                "|" => left | right,
                "^" => left ^ right,
                "&" => left & right,
                "<<" => left.checked_shl(u32::try_from(right).ok()?)?,
                ">>" => left.checked_shr(u32::try_from(right).ok()?)?,
                "+" => left.wrapping_add(right),
                "-" => left.wrapping_sub(right),
                _ => left.wrapping_mul(right),
            };
        }
    }

    fn unary(&mut self, depth: u32) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        if self.took("~")? {
            return Some(!self.unary(depth)?);
        }
        if self.took("-")? {
            return Some(self.unary(depth)?.wrapping_neg());
        }
        if self.took("(")? {
            let inside = self.text;
            if self.cast()? {
                return self.unary(depth);
            }
            self.text = inside;
            let value = self.binary(0, depth)?;
            self.take(")")?;
            return Some(value);
        }
        if self.took("'")? {
            let c = self.text.chars().next().filter(|c| !matches!(c, '\\' | '\''))?;
            self.text = &self.text[c.len_utf8()..];
            self.take("'")?;
            return Some(u64::from(u32::from(c)));
        }
        self.step()?;
        if self.text.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        let word = self.word()?;
        (self.names)(word)
    }

    /// Reads the words of a type and the parenthesis behind them. False where that is no cast.
    fn cast(&mut self) -> Option<bool> {
        let mut typed = false;
        let mut words = 0;
        while let Some(word) = self.word() {
            words += 1;
            typed |= word.ends_with("_t")
                || matches!(word, "unsigned" | "signed" | "int" | "long" | "short" | "char" | "enum")
                || matches!(word, "u8" | "u16" | "u32" | "u64" | "s8" | "s16" | "s32" | "s64" | "__force");
        }
        if words == 0 || !self.took(")")? {
            return Some(false);
        }
        self.step()?;
        let operand = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '(' | '~');
        Some(self.text.starts_with(operand) || (typed && self.text.starts_with('-')))
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        let value = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            u64::from_str_radix(hex, 16)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8)
        } else {
            digits.parse()
        };
        self.text = rest;
        value.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<u64> {
        let names = |name: &str| (name == "SEVEN").then_some(7);
        let mut scan = Scan::new(text, 1000, &names);
        scan.constant().filter(|_| scan.rest().trim().is_empty())
    }

    #[test]
    fn what_the_kernel_writes() {
        for (text, expected) in [
            ("0x00000002", 2),
            ("1 << 3", 8),
            ("(1UL) << (10)", 1024),
            ("( gfp_t)((((1UL))) << (6))", 64),
            ("( unsigned long)(((( gfp_t)0x400u|0x800u)) & ~(( gfp_t)(0x400u)))", 0x800),
            ("((((0x00000000 | 0x00000001 | 0x00000040) + 1) << 1) - 1)", 0x83),
            ("-1", u64::MAX),
            ("(u32)-1", u64::MAX),
            ("(__force u64)SEVEN", 7),
            ("(SEVEN) - 1", 6),
            ("(SEVEN)", 7),
            ("017", 15),
            ("'R'", 82),
            ("2 * 3 + 1 ^ 1", 6),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_constant_is_none() {
        let deep = format!("{}1{}", "(".repeat(70), ")".repeat(70));
        let long = vec!["1"; 2000].join("|");
        for text in [
            "",
            "(",
            "REC->x",
            "1 <<",
            "1 << 64",
            "1 << -1",
            "1 / 2",
            "EIGHT",
            "\"x\"",
            "08",
            "0x",
            "1)",
            "'",
            "'\\n'",
            "a b",
            "99999999999999999999",
            &deep,
            &long,
            "(unsigned",
            "ä",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
