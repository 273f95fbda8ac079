//! A print fmt's text made an expression for each of its conversions.
//!
//! **Invariants.** Any text ends in a tree of bounded depth and size, or in `None`.

use super::expr::{BINARY, Binary, Dynamic, Expr, Slot, Unary};

/// How deep expressions may nest, and how many tokens one print fmt may have. The kernel's GFP flags stand in 20
/// parentheses, each of which is four levels here.
const DEPTH: u32 = 256;
const STEPS: u32 = 400_000;

/// What is left of a text.
pub(super) struct Parser<'a> {
    rest: &'a str,
    slots: &'a [Slot],
    constants: &'a dyn Fn(&str) -> Option<u64>,
    depth: u32,
    steps: u32,
    /// Whether a constant was met that is not known.
    unknown: bool,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str, slots: &'a [Slot], constants: &'a dyn Fn(&str) -> Option<u64>) -> Parser<'a> {
        Parser { rest: text, slots, constants, depth: DEPTH, steps: STEPS, unknown: false }
    }

    fn step(&mut self) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        self.rest = self.rest.trim_start();
        Some(())
    }

    /// Takes `token` if it comes next.
    pub fn took(&mut self, token: &str) -> Option<bool> {
        self.step()?;
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        Some(rest.is_some())
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.took(token)?.then_some(())
    }

    /// Whether nothing is left.
    pub fn ended(&self) -> bool {
        self.rest.trim().is_empty()
    }

    fn word(&mut self) -> Option<&'a str> {
        self.step()?;
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        (!word.is_empty() && !word.starts_with(|c: char| c.is_ascii_digit())).then(|| {
            self.rest = rest;
            word
        })
    }

    /// Strings that stand beside each other, their escapes undone.
    pub fn string(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.take("\"")?;
        loop {
            let mut bytes = self.rest.bytes().enumerate();
            loop {
                self.steps = self.steps.checked_sub(1)?;
                match bytes.next()? {
                    (at, b'"') => {
                        self.rest = &self.rest[at + 1..];
                        break;
                    }
                    (_, b'\\') => match bytes.next()?.1 {
                        b'n' => out.push(b'\n'),
                        b't' => out.push(b'\t'),
                        b'r' => out.push(b'\r'),
                        other => out.push(other),
                    },
                    (_, b) => out.push(b),
                }
            }
            if !self.took("\"")? {
                return Some(out);
            }
        }
    }

    /// A whole expression.
    pub fn expr(&mut self) -> Option<Expr> {
        self.nested(|p| {
            let test = p.binary(1)?;
            if !p.took("?")? {
                return Some(test);
            }
            let yes = p.expr()?;
            p.take(":")?;
            let no = p.expr()?;
            Some(Expr::Cond(test.into(), yes.into(), no.into()))
        })
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth = self.depth.checked_sub(1)?;
        let done = inner(self);
        self.depth += 1;
        done
    }

    fn binary(&mut self, least: u8) -> Option<Expr> {
        let mut left = self.unary()?;
        // Each operator makes the tree deeper on its left.
        let mut operators = 0;
        loop {
            self.step()?;
            let next = BINARY.iter().find(|(text, ..)| self.rest.starts_with(text));
            let Some((text, operator, strength)) = next.filter(|(.., strength)| *strength >= least) else {
                return Some(left);
            };
            operators += 1;
            if operators > DEPTH {
                return None;
            }
            self.rest = &self.rest[text.len()..];
            let right = self.nested(|p| p.binary(strength + 1))?;
            left = folded(*operator, left, right);
        }
    }

    fn unary(&mut self) -> Option<Expr> {
        self.nested(|p| {
            p.step()?;
            let operator = match p.rest.bytes().next()? {
                b'-' => Unary::Minus,
                b'!' => Unary::Not,
                b'~' => Unary::Invert,
                b'+' => {
                    p.rest = &p.rest[1..];
                    return p.unary();
                }
                _ => return p.postfix(),
            };
            p.rest = &p.rest[1..];
            Some(match p.unary()? {
                Expr::Number(n) => Expr::Number(operator.of(n)),
                other => Expr::Unary(operator, other.into()),
            })
        })
    }

    fn postfix(&mut self) -> Option<Expr> {
        let mut expr = self.primary()?;
        while self.took("[")? {
            let index = self.expr()?;
            self.take("]")?;
            // A cast before it says how large the elements are: ((u16 *)__get_dynamic_array(x))[1].
            let (base, width) = match expr {
                Expr::Cast(bits, base) => (base, Some(bits as usize / 8)),
                base => (base.into(), None),
            };
            expr = Expr::Index(base, index.into(), width);
        }
        Some(expr)
    }

    fn primary(&mut self) -> Option<Expr> {
        self.step()?;
        match self.rest.bytes().next()? {
            b'"' => self.string().map(Expr::Text),
            b'0'..=b'9' => self.number(),
            b'\'' => {
                let c = *self.rest.as_bytes().get(1)?;
                let end = self.rest[1..].find('\'').filter(|end| *end == 1)?;
                self.rest = &self.rest[end + 2..];
                Some(Expr::Number(c.into()))
            }
            b'(' => {
                self.rest = &self.rest[1..];
                if let Some(bits) = self.cast() {
                    let inner = self.unary()?;
                    return Some(constant(Expr::Cast(bits, inner.into())));
                }
                let inner = self.expr()?;
                self.take(")")?;
                Some(inner)
            }
            _ => self.named(),
        }
    }

    fn number(&mut self) -> Option<Expr> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
        let n = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            u64::from_str_radix(hex, 16)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8)
        } else {
            digits.parse()
        };
        n.ok().map(Expr::Number)
    }

    /// A type in parentheses, of which the first has been taken: its bits. Nothing is taken where it is none.
    fn cast(&mut self) -> Option<u32> {
        let before = self.rest;
        let bits = self.type_name().filter(|_| self.took(")") == Some(true) && self.operand_follows());
        if bits.is_none() {
            self.rest = before;
        }
        bits
    }

    fn operand_follows(&self) -> bool {
        let next = self.rest.trim_start().bytes().next();
        next.is_some_and(|b| {
            b.is_ascii_alphanumeric() || matches!(b, b'_' | b'(' | b'~' | b'-' | b'!' | b'"')
        })
    }

    /// The bits of a type; of a pointer, those of what it points to, as only indices ask for them.
    fn type_name(&mut self) -> Option<u32> {
        let (mut words, mut known, mut bits, mut pointer) = (0, false, 64, false);
        loop {
            if self.took("*")? {
                pointer = true;
                continue;
            }
            let before = self.rest;
            let Some(word) = self.word() else { break };
            if word == "REC" || pointer {
                self.rest = before;
                break;
            }
            words += 1;
            let (is_known, width) = type_word(word);
            known |= is_known;
            bits = width.unwrap_or(bits);
        }
        (words > 0 && (known || pointer)).then_some(bits)
    }

    fn named(&mut self) -> Option<Expr> {
        let name = self.word()?;
        if name == "REC" {
            self.take("->")?;
            let name = self.word()?;
            return self.slot(name).map(Expr::Field);
        }
        if !self.took("(")? {
            // A constant that only a compiler knows is 0 to libtraceevent, too.
            let known = (self.constants)(name);
            self.unknown |= known.is_none();
            return Some(Expr::Number(known.unwrap_or(0)));
        }
        let expr = self.call(name)?;
        self.take(")")?;
        Some(expr)
    }

    fn slot(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.name == name)
    }

    fn field(&mut self) -> Option<usize> {
        let name = self.word()?;
        self.slot(name)
    }

    fn call(&mut self, name: &str) -> Option<Expr> {
        Some(match name {
            "__get_str" | "__get_rel_str" => Expr::Str(self.field()?),
            "__get_dynamic_array" | "__get_rel_dynamic_array" => Expr::Array(self.field()?),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => Expr::ArrayLen(self.field()?),
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                Expr::Bitmask(self.field()?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = self.expr()?;
                self.take(",")?;
                let between = self.string()?;
                Expr::Flags(value.into(), between, self.names()?)
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                let value = self.expr()?;
                Expr::Symbolic(value.into(), self.names()?)
            }
            "__print_hex" | "__print_hex_str" => {
                let bytes = self.expr()?;
                self.take(",")?;
                Expr::Hex(bytes.into(), self.expr()?.into(), name == "__print_hex")
            }
            "__print_array" => {
                let array = self.expr()?;
                self.take(",")?;
                let count = self.expr()?;
                self.take(",")?;
                Expr::Ints(array.into(), count.into(), self.expr()?.into())
            }
            "sizeof" => match self.type_name() {
                Some(bits) => Expr::Number(u64::from(bits / 8)),
                None => {
                    let Expr::Field(slot) = self.expr()? else { return None };
                    Expr::Number(self.slots[slot].size as u64)
                }
            },
            _ => return None,
        })
    }

    /// `, { VALUE, "name" }` as often as it comes.
    fn names(&mut self) -> Option<Vec<(u64, Vec<u8>)>> {
        let mut names = Vec::new();
        while self.took(",")? {
            self.take("{")?;
            self.unknown = false;
            let value = self.expr()?;
            let unknown = self.unknown;
            self.take(",")?;
            // The null pointer that ends some tables.
            let name = if self.rest.trim_start().starts_with('"') {
                Some(self.string()?)
            } else {
                self.expr()?;
                None
            };
            self.take("}")?;
            let Expr::Number(value) = constant(value) else { return None };
            // Nothing has the name of what is not known.
            names.extend(name.filter(|_| !unknown).map(|name| (value, name)));
        }
        Some(names)
    }
}

/// Whether a word is part of a type's name for sure, and the bits that it says.
fn type_word(word: &str) -> (bool, Option<u32>) {
    let bits = match word {
        "char" | "u8" | "__u8" | "s8" | "__s8" | "bool" | "uint8_t" | "int8_t" => 8,
        "short" | "u16" | "__u16" | "s16" | "__s16" | "uint16_t" | "int16_t" | "__be16" | "__le16" => 16,
        "int" | "u32" | "__u32" | "s32" | "__s32" | "uint32_t" | "int32_t" | "__be32" | "__le32" => 32,
        // Alone it is 32, before `long` no more than the absence of a sign.
        "unsigned" | "signed" => 32,
        "long" | "u64" | "__u64" | "s64" | "__s64" | "uint64_t" | "int64_t" => 64,
        "const" | "struct" | "union" | "enum" | "void" => return (true, None),
        _ => return (word.ends_with("_t"), None),
    };
    (true, Some(bits))
}

fn folded(operator: Binary, left: Expr, right: Expr) -> Expr {
    match (constant(left), constant(right)) {
        (Expr::Number(a), Expr::Number(b)) => Expr::Number(operator.of(a, b)),
        (left, right) => Expr::Binary(operator, left.into(), right.into()),
    }
}

/// What a cast of a number is at once.
fn constant(expr: Expr) -> Expr {
    match expr {
        Expr::Cast(bits, inner) => match constant(*inner) {
            Expr::Number(n) => Expr::Number(n & (u64::MAX >> (64 - bits.clamp(1, 64)))),
            inner => Expr::Cast(bits, inner.into()),
        },
        other => other,
    }
}

/// A slot for each field, as its C type says.
pub(super) fn slots(fields: &[crate::schema::format::FormatField]) -> Vec<Slot> {
    let slot = |field: &crate::schema::format::FormatField| {
        let ty = &*field.type_name;
        let dynamic = match ty {
            _ if ty.starts_with("__data_loc") => Some(Dynamic::Start),
            _ if ty.starts_with("__rel_loc") => Some(Dynamic::Field),
            _ => None,
        };
        let array = ty.find('[').or(dynamic.map(|_| ty.len()));
        let base = array.map_or(ty, |at| &ty[..at]);
        let words = || base.split_whitespace();
        let width = words().filter_map(|word| type_word(word).1).next_back();
        let count = array.and_then(|at| ty.get(at + 1..)?.strip_suffix(']')?.parse::<usize>().ok());
        let divided = count.filter(|n| *n > 0 && dynamic.is_none()).map(|n| field.size as usize / n);
        let known = width.map_or(1, |bits| bits as usize / 8);
        Slot {
            name: field.name.clone(),
            offset: field.offset as usize,
            size: field.size as usize,
            signed: field.signed,
            element: array.map(|_| divided.filter(|n| *n > 0).unwrap_or(known)),
            text: array.is_some() && words().any(|word| word == "char") && !words().any(|w| w == "unsigned"),
            pointer: base.contains('*') && array.is_none(),
            long: words().any(|word| word == "long"),
            dynamic,
        }
    };
    fields.iter().map(slot).collect()
}
