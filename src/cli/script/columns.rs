//! What `--fields` names: columns as perf has them, and fields of the events themselves.

use tracer::{Error, Result, probe::near};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Comm,
    Pid,
    Tid,
    Cpu,
    Time,
    Period,
    Event,
    /// All fields that are asked for by name.
    Fields,
    Trace,
    Addr,
    Ip,
    Sym,
    SymOff,
    Dso,
}

/// Those with names, in the order in which a line has them.
const ALL: [(&str, Column); 13] = [
    ("comm", Column::Comm),
    ("pid", Column::Pid),
    ("tid", Column::Tid),
    ("cpu", Column::Cpu),
    ("time", Column::Time),
    ("period", Column::Period),
    ("event", Column::Event),
    ("trace", Column::Trace),
    ("addr", Column::Addr),
    ("ip", Column::Ip),
    ("sym", Column::Sym),
    ("symoff", Column::SymOff),
    ("dso", Column::Dso),
];
/// Those that tell most.
const USUAL: [&str; 7] = ["comm", "pid", "tid", "cpu", "time", "event", "trace"];

/// The columns of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// A bit for each.
    set: u32,
    /// Nothing was asked for, so that call chains are shown where there are any.
    usual: bool,
    /// The fields of events, in the order in which they are named.
    pub fields: Vec<String>,
}

impl Columns {
    /// The columns that a list names; without one, the usual. What is no column's name may be that of a field:
    /// [`Columns::check`] tells once events are known.
    pub fn parse(list: &[String]) -> Result<Columns> {
        let mut columns = Columns { set: 0, usual: list.is_empty(), fields: Vec::new() };
        let usual = USUAL.map(str::to_owned);
        for name in if columns.usual { &usual[..] } else { list } {
            let name = name.trim();
            match ALL.iter().find(|(known, _)| *known == name) {
                Some((_, column)) => columns.set |= 1 << *column as u32,
                None if name.is_empty() => {
                    return Err(Error::usage("--fields: an empty name").with_help(help()));
                }
                None if columns.fields.iter().any(|f| f == name) => {}
                None => columns.fields.push(name.to_owned()),
            }
        }
        if !columns.fields.is_empty() {
            columns.set |= 1 << Column::Fields as u32;
        }
        if columns.has(Column::SymOff) && !columns.has(Column::Sym) {
            return Err(Error::usage("--fields: symoff is how far behind its symbol an address lies")
                .with_help("ask for sym too: sym,symoff"));
        }
        Ok(columns)
    }

    /// Whether lines have it.
    #[inline]
    pub fn has(&self, column: Column) -> bool {
        self.set & 1 << column as u32 != 0
    }

    /// Whether nothing was asked for.
    pub fn is_usual(&self) -> bool {
        self.usual
    }

    /// The same with what perf shows of an event that has call chains, where nothing else was asked for.
    pub fn with_chains(&self) -> Columns {
        let more = [Column::Ip, Column::Sym, Column::SymOff, Column::Dso];
        let all = more.iter().fold(self.set, |all, column| all | 1 << *column as u32);
        Columns { set: if self.usual { all } else { self.set }, ..self.clone() }
    }

    /// Each with its name, in the order in which a line has them; fields in the order in which they were named.
    pub fn all(&self) -> impl Iterator<Item = (&str, Column)> {
        let behind = |column: &Column| *column as u32 > Column::Fields as u32;
        let named = ALL.iter().copied().filter(|(_, column)| self.has(*column));
        let fields = self.fields.iter().map(|name| (&**name, Column::Fields));
        named
            .clone()
            .filter(move |(_, c)| !behind(c))
            .chain(fields)
            .chain(named.filter(move |(_, c)| behind(c)))
    }

    /// Refuses a name that no event has for a field.
    pub fn check(&self, known: &[String]) -> Result<()> {
        let Some(other) = self.fields.iter().find(|name| !known.contains(name)) else { return Ok(()) };
        let all = known.iter().map(String::as_str).chain(ALL.iter().map(|(name, _)| *name));
        let near = near(other, all.map(str::to_owned).collect(), str::to_owned);
        Err(Error::usage(format!(
            "--fields: there is no column '{other}', and no event has a field of that name"
        ))
        .with_help(format!("{near}; {}; fields: {}", help(), some(known))))
    }
}

/// The first of many names.
fn some(names: &[String]) -> String {
    const TOLD: usize = 40;
    let more = if names.len() > TOLD { ", …" } else { "" };
    names[..names.len().min(TOLD)].join(", ") + more
}

fn help() -> String {
    let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
    format!("columns: {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<Columns> {
        Columns::parse(&list.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn columns_come_in_the_order_of_a_line_and_fields_as_they_are_named() {
        let columns = parse("ip,ret,time,count,comm,ret").unwrap();
        let names: Vec<&str> = columns.all().map(|(name, _)| name).collect();
        assert_eq!(names, ["comm", "time", "ret", "count", "ip"]);
        assert!(!columns.with_chains().has(Column::Dso), "what was asked for is what is shown");
        let usual = Columns::parse(&[]).unwrap();
        assert_eq!(usual.all().count(), 7);
        assert!(!usual.has(Column::Ip) && usual.with_chains().has(Column::Ip));
    }

    #[test]
    fn what_no_event_has_is_refused_with_what_is_like_it() {
        let known = ["count".to_owned(), "ret".to_owned()];
        parse("comm,count,ret").unwrap().check(&known).unwrap();
        let refused = parse("comm,coutn").unwrap().check(&known).unwrap_err();
        assert!(refused.to_string().contains("'coutn'"), "{refused}");
        assert!(refused.help().unwrap_or_default().contains("did you mean count?"), "{:?}", refused.help());
        assert!(parse("comm,,time").is_err() && parse("ip,symoff").is_err());
    }
}
