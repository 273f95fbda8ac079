//! What a spec says, taken apart: the types, and how each is written.

use std::fmt;

use super::{Hint, Literal, Provider};

/// One probe as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What stood before `=`.
    pub name: Option<String>,
    /// The kind of hook.
    pub provider: Provider,
    /// The file of a uprobe, USDT probe or object, the category of a tracepoint; empty elsewhere.
    pub scope: String,
    /// The function, symbol, tracepoint or system call; `PROVIDER:NAME` of a USDT probe; the program of an
    /// object, or empty for all. `*` and `?` match.
    pub target: String,
    /// Bytes into the function.
    pub offset: u64,
    /// What stood between `/` and `/`: the condition under which it fires.
    pub predicate: Option<Expr>,
    /// What stood between `{` and `}`; `None` means all parameters, as [`Field::all`] does, an empty list none.
    pub fields: Option<Vec<Field>>,
}

/// One captured field: `[ALIAS:]PATH[:HINT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name it is shown by, where it is not the path.
    pub alias: Option<String>,
    /// Where it is.
    pub path: Path,
    /// How it is shown, where its type does not say.
    pub hint: Option<Hint>,
}

/// A way to a value: from a parameter or a built-in, through members and elements.
///
/// The cast is applied to the root, then come the steps, then the dereferences: `*(struct foo *)arg2.x` is
/// what C writes as `*((struct foo *)arg2)->x`. A pointer on the way is followed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// How many `*` stand before it.
    pub derefs: u32,
    /// The type that the root points to, such as `struct foo`; with a star for each further pointer.
    pub cast: Option<String>,
    /// The function that its value is given to, all else being its argument: `path` of `path(file)`.
    pub call: Option<String>,
    /// A parameter, `argN`, `ret`, `retval`, or a built-in such as `comm`.
    pub root: String,
    /// The members and elements that follow.
    pub steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `.name`; `->name` means the same.
    Member(String),
    /// `[3]`
    Index(u64),
}

/// The condition of a predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// `||` of two or more.
    Or(Vec<Expr>),
    /// `&&` of two or more.
    And(Vec<Expr>),
    /// `!`
    Not(Box<Expr>),
    /// A field beside a constant.
    Compare {
        /// The field.
        left: Path,
        /// How the field is read.
        hint: Option<Hint>,
        /// What is asked.
        op: Op,
        /// The constant; a [`Literal::Str`] or [`Literal::Glob`] only with [`Op::Eq`] and [`Op::Ne`].
        right: Literal,
    },
    /// A field that is one of some constants: `pid in (1, 2)`.
    In {
        /// The field.
        left: Path,
        /// How the field is read.
        hint: Option<Hint>,
        /// The constants, one or more.
        set: Vec<Literal>,
    },
    /// A field that is not zero.
    Truthy(Path),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `==`: equal; a string with `*` or `?` matches.
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `&`: any of these bits is set.
    Bits,
}

impl Spec {
    /// The name of its events.
    pub fn event_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let target = match self.provider {
            Provider::Usdt => self.target.rsplit(':').next().unwrap_or_default(),
            Provider::Object if self.target.is_empty() => {
                let file = self.scope.rsplit('/').next().unwrap_or_default();
                file.split('.').next().unwrap_or_default()
            }
            _ => &self.target,
        };
        format!("{target}{}", if self.provider.is_return() { "_return" } else { "" })
    }
}

impl Spec {
    /// Asks for a field beside those that it shows, unless it does already.
    pub fn show_too(&mut self, field: Field) {
        let fields = self.fields.get_or_insert_with(|| vec![Field::all()]);
        if !fields.contains(&field) {
            fields.push(field);
        }
    }

    /// Whether a field or the predicate starts from one of these names.
    pub fn mentions(&self, roots: &[&str]) -> bool {
        let is = |path: &Path| roots.contains(&&*path.root);
        let shown = self.fields.iter().flatten().any(|field| is(&field.path));
        shown || self.predicate.as_ref().is_some_and(|predicate| predicate.any(&is))
    }

    /// The types that paths are cast to, as they are written.
    pub fn casts(&self) -> Vec<&str> {
        let mut paths: Vec<&Path> = self.fields.iter().flatten().map(|field| &field.path).collect();
        if let Some(predicate) = &self.predicate {
            predicate.paths(&mut paths);
        }
        paths.into_iter().filter_map(|path| path.cast.as_deref()).collect()
    }
}

impl Expr {
    /// Adds every path in it.
    fn paths<'a>(&'a self, found: &mut Vec<&'a Path>) {
        match self {
            Expr::Or(all) | Expr::And(all) => all.iter().for_each(|one| one.paths(found)),
            Expr::Not(one) => one.paths(found),
            Expr::Compare { left, .. } | Expr::In { left, .. } | Expr::Truthy(left) => found.push(left),
        }
    }

    /// Whether this holds of any path in it.
    fn any(&self, is: &dyn Fn(&Path) -> bool) -> bool {
        match self {
            Expr::Or(all) | Expr::And(all) => all.iter().any(|one| one.any(is)),
            Expr::Not(one) => one.any(is),
            Expr::Compare { left, .. } | Expr::In { left, .. } | Expr::Truthy(left) => is(left),
        }
    }
}

impl Field {
    /// `*`: all that is shown where nothing is asked for.
    pub fn all() -> Field {
        Field { alias: None, path: Path::of("*"), hint: None }
    }

    /// Whether it is `*`.
    pub fn is_all(&self) -> bool {
        self.path.root == "*"
    }
}

impl Path {
    /// A parameter or built-in by itself.
    pub fn of(root: impl Into<String>) -> Path {
        Path { derefs: 0, cast: None, call: None, root: root.into(), steps: Vec::new() }
    }

    /// Whether it is a name and nothing else.
    pub fn is_name(&self) -> bool {
        self.derefs == 0 && self.cast.is_none() && self.call.is_none() && self.steps.is_empty()
    }

    /// Whether it would be taken for a hint where a hint could stand.
    fn reads_as_hint(&self) -> bool {
        let length = match self.steps.as_slice() {
            [] => None,
            [Step::Index(length)] => Some(*length),
            _ => return false,
        };
        let plain = self.derefs == 0 && self.cast.is_none() && self.call.is_none();
        plain && Hint::named(&self.root, length).is_some()
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        write!(f, "{}:", self.provider.short())?;
        if self.provider.has_path() {
            show_file(f, self)?;
        } else {
            f.write_str(&self.scope)?;
        }
        if !self.scope.is_empty() && !self.target.is_empty() {
            f.write_str(":")?;
        }
        f.write_str(&self.target)?;
        if self.offset != 0 {
            write!(f, "+{:#x}", self.offset)?;
        }
        if let Some(predicate) = &self.predicate {
            write!(f, "/{predicate}/")?;
        }
        if let Some(fields) = &self.fields {
            f.write_str("{")?;
            separated(f, ", ", fields, |f, field| write!(f, "{field}"))?;
            f.write_str("}")?;
        }
        Ok(())
    }
}

/// The path of a file, with `\` before what would end it too early.
fn show_file(f: &mut fmt::Formatter<'_>, spec: &Spec) -> fmt::Result {
    for (at, c) in spec.scope.char_indices() {
        let ends = match c {
            '\\' | '{' | '}' => true,
            ':' if at == 0 => true,
            ':' => {
                let rest = &spec.scope[at + 1..];
                let after = rest.trim_start_matches(super::lex::in_target);
                match after.chars().next() {
                    _ if after.len() == rest.len() => false,
                    None => spec.target.is_empty(),
                    Some(':') => spec.provider == Provider::Usdt,
                    Some(next) => matches!(next, '/' | '+'),
                }
            }
            c => super::lex::is_blank(c),
        };
        write!(f, "{}{c}", if ends { "\\" } else { "" })?;
    }
    Ok(())
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(alias) = &self.alias {
            write!(f, "{alias}:")?;
            if self.hint.is_none() && self.path.reads_as_hint() {
                return write!(f, "({})", self.path);
            }
        }
        write!(f, "{}", self.path)?;
        self.hint.iter().try_for_each(|hint| write!(f, ":{hint}"))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(call) = &self.call {
            write!(f, "{call}(")?;
        }
        (0..self.derefs).try_for_each(|_| f.write_str("*"))?;
        if let Some(cast) = &self.cast {
            write!(f, "({cast}{}*)", if cast.ends_with('*') { "" } else { " " })?;
        }
        f.write_str(&self.root)?;
        for step in &self.steps {
            match step {
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        f.write_str(if self.call.is_some() { ")" } else { "" })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Eq => "==",
            Op::Ne => "!=",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
            Op::Bits => "&",
        })
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hinted = |f: &mut fmt::Formatter<'_>, left: &Path, hint: &Option<Hint>| {
            write!(f, "{left}")?;
            hint.iter().try_for_each(|hint| write!(f, ":{hint}"))
        };
        match self {
            Expr::Or(all) => separated(f, " || ", all, |f, one| match one {
                Expr::Or(_) => write!(f, "({one})"),
                _ => write!(f, "{one}"),
            }),
            Expr::And(all) => separated(f, " && ", all, |f, one| match one {
                Expr::Or(_) | Expr::And(_) => write!(f, "({one})"),
                _ => write!(f, "{one}"),
            }),
            Expr::Not(one) => match **one {
                Expr::Not(_) | Expr::Truthy(_) => write!(f, "!{one}"),
                _ => write!(f, "!({one})"),
            },
            Expr::Compare { left, hint, op, right } => {
                hinted(f, left, hint)?;
                write!(f, " {op} {right}")
            }
            Expr::In { left, hint, set } => {
                hinted(f, left, hint)?;
                f.write_str(" in (")?;
                separated(f, ", ", set, |f, one| write!(f, "{one}"))?;
                f.write_str(")")
            }
            Expr::Truthy(path) => write!(f, "{path}"),
        }
    }
}

/// Writes all of them with something between.
fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    between: &str,
    all: &[T],
    mut write: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (i, one) in all.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { between })?;
        write(f, one)?;
    }
    Ok(())
}
