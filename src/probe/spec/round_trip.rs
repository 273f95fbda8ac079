//! Tests: whatever can be said is written as a text that says the same.

use super::*;

/// A small generator of pseudo-random choices (xorshift64*), so that a failure is found again by its seed.
struct Choices(u64);

impl Choices {
    fn of(seed: u64) -> Choices {
        Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }

    fn often(&mut self) -> bool {
        self.below(3) > 0
    }

    fn number(&mut self) -> u64 {
        let wide = (self.below(1 << 31) as u64) << 33 | self.below(1 << 31) as u64;
        wide >> self.below(64)
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn some<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.often() { Some(make(self)) } else { None }
    }

    fn list<T>(&mut self, least: usize, most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..least + self.below(most - least + 1)).map(|_| make(self)).collect()
    }

    /// Also those that mean something elsewhere.
    fn name(&mut self) -> String {
        const NAMES: [&str; 16] = [
            "a", "b", "pid", "arg0", "s", "x", "buf", "ubuf", "in", "and", "path", "str", "time", "struct",
            "_1", "K",
        ];
        self.one(&NAMES).to_owned()
    }

    fn target(&mut self) -> String {
        self.list(1, 3, |c| c.one(&["vfs", "_", ".isra.0", "*", "?", "$x", "@", "~"])).concat()
    }

    fn file(&mut self) -> String {
        const PARTS: [&str; 16] =
            ["/", ":", "a", "b/c", ".so", "\\", " ", "{", "}", "+4", "é", ":f/", "\"", "\n", ":p:n", "*"];
        self.list(1, 8, |c| c.one(&PARTS)).concat()
    }

    fn hint(&mut self) -> Hint {
        match self.one(&Hint::WORDS).1 {
            Hint::Buf(_) => Hint::Buf(self.number()),
            Hint::UserBuf(_) => Hint::UserBuf(self.number()),
            hint => hint,
        }
    }

    fn path(&mut self) -> Path {
        let steps = self.list(0, 3, |c| match c.often() {
            true => Step::Member(c.name()),
            false => Step::Index(c.number()),
        });
        let derefs = [0, 0, 0, 1, 3][self.below(5)];
        let cast = match self.below(4) {
            0 => Some(
                self.one(&["struct foo", "u32", "unsigned long *", "struct foo **", "a b c d"]).to_owned(),
            ),
            _ => None,
        };
        let call = if self.below(5) == 0 { Some("path".to_owned()) } else { None };
        Path { derefs, cast, call, root: self.name(), steps }
    }

    fn field(&mut self) -> Field {
        Field { alias: self.some(Self::name), path: self.path(), hint: self.some(Self::hint) }
    }

    fn byte(&mut self) -> u8 {
        match self.below(4) {
            0 => self.below(256) as u8,
            1 => self.one(b"\"'\\*?/\n\t"),
            _ => b'a' + self.below(26) as u8,
        }
    }

    fn literal(&mut self) -> Literal {
        match self.below(7) {
            0 => Literal::Int(self.number().into()),
            1 => Literal::Int(-i128::from(self.number() >> 1)),
            2 => Literal::Duration(self.number() / 1000 * self.one(&[1, 60, 1000])),
            3 => Literal::Char(self.byte()),
            4 => Literal::Name { minus: self.often(), name: self.name() },
            _ => self.text(),
        }
    }

    fn text(&mut self) -> Literal {
        if self.often() {
            let text = if self.often() { "é\u{202e}".as_bytes().to_vec() } else { Vec::new() };
            return Literal::Str([text, self.list(0, 5, Self::byte)].concat());
        }
        let mut pieces = self.list(0, 5, |c| match c.below(4) {
            0 => Piece::One,
            1 => Piece::Any,
            _ => Piece::Byte(c.byte()),
        });
        pieces.push(Piece::Any);
        Literal::Glob(pieces)
    }

    fn expr(&mut self, depth: usize) -> Expr {
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0 => Expr::Truthy(self.path()),
            1 => {
                let (op, right) = match self.literal() {
                    right @ (Literal::Str(_) | Literal::Glob(_)) => (self.one(&[Op::Eq, Op::Ne]), right),
                    right => (self.one(&[Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Bits]), right),
                };
                Expr::Compare { left: self.path(), hint: self.some(Self::hint), op, right }
            }
            2 => {
                let set = self.list(1, 3, Self::literal);
                Expr::In { left: self.path(), hint: self.some(Self::hint), set }
            }
            3 => Expr::Not(Box::new(self.expr(depth - 1))),
            4 => Expr::And(self.list(2, 3, |c| c.expr(depth - 1))),
            _ => Expr::Or(self.list(2, 3, |c| c.expr(depth - 1))),
        }
    }

    fn spec(&mut self) -> Spec {
        let provider = self.one(&[
            Provider::Kprobe,
            Provider::Fexit,
            Provider::Tracepoint,
            Provider::Syscall,
            Provider::Uprobe,
            Provider::Uretprobe,
            Provider::Usdt,
            Provider::Object,
        ]);
        let scope = match provider {
            Provider::Tracepoint => self.target(),
            Provider::Uprobe | Provider::Uretprobe | Provider::Usdt | Provider::Object => self.file(),
            _ => String::new(),
        };
        let target = match provider {
            Provider::Usdt => format!("{}:{}", self.target(), self.target()),
            Provider::Object if self.often() => String::new(),
            _ => self.target(),
        };
        let whole = !target.contains(['*', '?']) && matches!(provider, Provider::Kprobe | Provider::Uprobe);
        Spec {
            name: self.some(Self::name),
            provider,
            scope,
            target,
            offset: if whole && self.often() { self.number() } else { 0 },
            predicate: self.some(|c| c.expr(4)).filter(|_| provider != Provider::Object),
            fields: self.some(|c| c.list(0, 4, Self::field)),
        }
    }
}

#[test]
fn every_spec_is_read_as_it_was_meant() {
    for seed in 1..=5_000 {
        let spec = Choices::of(seed).spec();
        if spec.provider == Provider::Object && spec.scope.ends_with('/') {
            continue;
        }
        let text = spec.to_string();
        match text.parse::<Spec>() {
            Ok(read) => assert_eq!(read, spec, "seed {seed}: {text}"),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

#[test]
fn every_part_is_read_as_it_was_meant() {
    for seed in 1..=5_000 {
        let mut choices = Choices::of(seed);
        let (expr, field, path) = (choices.expr(5), choices.field(), choices.path());
        assert_eq!(expr.to_string().parse::<Expr>().unwrap(), expr, "seed {seed}: {expr}");
        assert_eq!(field.to_string().parse::<Field>().unwrap(), field, "seed {seed}: {field}");
        assert_eq!(path.to_string().parse::<Path>().unwrap(), path, "seed {seed}: {path}");
        let (hint, literal) = (choices.hint(), choices.literal());
        assert_eq!(hint.to_string().parse::<Hint>().unwrap(), hint);
        assert_eq!(literal.to_string().parse::<Literal>().unwrap(), literal, "seed {seed}: {literal}");
    }
}

/// Texts made of the grammar's own pieces: nothing panics, and what is read is written as it was understood.
#[test]
fn whatever_is_read_is_written_as_it_was_understood() {
    const PIECES: [&str; 40] = [
        "k:", "u:", "o:", "t:", "usdt:", "a", "f", "=", "/", "{", "}", ":", "+", "0x1", "9", "(", ")", "*",
        "?", "!", "&&", "||", "&", "==", "<", ".", "->", "[", "]", ",", " ", "\"", "\\", "'", "in", "struct",
        "buf", "s", "-", "é",
    ];
    let mut understood = 0;
    for seed in 1..=20_000 {
        let mut choices = Choices::of(seed);
        let text = choices.list(1, 14, |c| c.one(&PIECES)).concat();
        if let Ok(spec) = text.parse::<Spec>() {
            assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec, "{text} → {spec}");
            understood += 1;
        }
    }
    assert!(understood > 100, "{understood}");
}
