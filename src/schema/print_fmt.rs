//! The tables of names in a tracepoint's print fmt: `__print_symbolic` and `__print_flags`.

use super::constant::Scan;

/// The most that is read of one print fmt, in tokens and in characters of strings: the longest of the kernel's
/// have some thousands.
const STEPS: u32 = 400_000;

/// The names that a print fmt gives to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// The field.
    pub field: String,
    /// Whether they are of bits.
    pub bits: bool,
    /// Values with their names, in order.
    pub entries: Vec<(u64, Box<str>)>,
}

/// Every table whose field and entries can be told; entries whose value cannot are left out.
pub(super) fn tables(text: &str, names: &dyn Fn(&str) -> Option<u64>) -> Vec<Table> {
    let mut scan = Scan::new(text, STEPS, names);
    let mut tables = Vec::new();
    loop {
        let rest = scan.rest();
        let Some(at) = rest.find("__print_") else { return tables };
        let behind = &rest[at + "__print_".len()..];
        scan.jump(behind);
        match table(&mut scan) {
            Some(table) => tables.push(table),
            // What lies within a table that could not be told is looked at again: tables nest.
            None => scan.jump(behind),
        }
        if scan.spent() {
            return tables;
        }
    }
}

fn table(scan: &mut Scan<'_>) -> Option<Table> {
    let bits = match scan.word()? {
        "symbolic" | "symbolic_u64" => false,
        "flags" | "flags_u64" => true,
        _ => return None,
    };
    scan.take("(")?;
    let field = subject(scan, bits)?;
    scan.take(",")?;
    if bits {
        scan.string()?;
        scan.take(",")?;
    }
    let mut entries = Vec::new();
    loop {
        scan.take("{")?;
        let within = scan.rest();
        match entry(scan) {
            Some(entry) => entries.push(entry),
            // A constant that only a compiler knows, or the null pointer that ends some tables.
            None => {
                scan.jump(within);
                scan.past('}')?;
            }
        }
        if !scan.took(",")? {
            break;
        }
    }
    scan.take(")")?;
    if bits && let Some(none) = otherwise(scan) {
        entries.push((0, none.into()));
    }
    (!entries.is_empty()).then(|| Table { field: field.to_owned(), bits, entries })
}

/// `VALUE, "name" }`
fn entry(scan: &mut Scan<'_>) -> Option<(u64, Box<str>)> {
    let value = scan.constant()?;
    scan.take(",")?;
    let name = scan.string()?.into();
    scan.take("}")?;
    Some((value, name))
}

/// `REC->field` within parentheses and casts; of bits, also a part of them: `REC->field & MASK`.
fn subject<'a>(scan: &mut Scan<'a>, bits: bool) -> Option<&'a str> {
    let mut open = 0;
    loop {
        if scan.took("(")? {
            open += 1;
            let inside = scan.rest();
            let mut words = 0;
            while !inside.trim_start().starts_with("REC->") && scan.word().is_some() {
                words += 1;
            }
            match words > 0 && scan.took(")")? {
                true => open -= 1,
                false => scan.jump(inside),
            }
        } else {
            break;
        }
    }
    scan.take("REC->")?;
    let field = scan.word()?;
    loop {
        if open > 0 && scan.took(")")? {
            open -= 1;
        } else if bits && scan.took("&")? {
            scan.constant()?;
        } else {
            return (open == 0).then_some(field);
        }
    }
}

/// The text of ` : "text"` behind a table that stands after a `?`: what it is where no bit is set.
fn otherwise(scan: &mut Scan<'_>) -> Option<String> {
    let behind = scan.rest();
    let text = (scan.took(":") == Some(true)).then(|| scan.string()).flatten().filter(|t| !t.is_empty());
    if text.is_none() {
        scan.jump(behind);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = (String, bool, Vec<(u64, String)>);

    fn told(text: &str) -> Vec<Told> {
        let names = |name: &str| (name == "HRTIMER_MODE_REL").then_some(1);
        let all = tables(text, &names).into_iter();
        all.map(|t| (t.field, t.bits, t.entries.into_iter().map(|(v, n)| (v, n.into())).collect())).collect()
    }

    fn one(field: &str, bits: bool, entries: &[(u64, &str)]) -> Told {
        (field.into(), bits, entries.iter().map(|(v, n)| (*v, (*n).into())).collect())
    }

    #[test]
    fn what_the_kernel_writes() {
        let switch = "\"prev_state=%s%s\", (REC->prev_state & ((0x1 | 0x2) + 1)) ? __print_flags(REC->prev_state & \
            ((((0x00000000 | 0x00000001) + 1) << 1) - 1), \"|\", { 0x00000001, \"S\" }, { 0x00000002, \"D\" }) : \
            \"R\", REC->prev_state & 4 ? \"+\" : \"\"";
        assert_eq!(told(switch), [one("prev_state", true, &[(1, "S"), (2, "D"), (0, "R")])]);
        let softirq =
            "\"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, { 1, \"TIMER\" })";
        assert_eq!(told(softirq), [one("vec", false, &[(0, "HI"), (1, "TIMER")])]);
        let gfp = "(REC->gfp_flags) ? __print_flags((unsigned long)REC->gfp_flags, \"|\", {( unsigned long)((( gfp_t)\
            ((((1UL))) << (10))) | (( gfp_t)1)), \"A\" \"B\"}, {(unsigned long)(( gfp_t)2), \"C\"}, { 0, ((void *)0) }) : \"none\"";
        assert_eq!(told(gfp), [one("gfp_flags", true, &[(1025, "AB"), (2, "C"), (0, "none")])]);
        let hrtimer = "__print_symbolic(REC->mode, { HRTIMER_MODE_ABS, \"ABS\" }, { HRTIMER_MODE_REL, \"REL\" }), REC->x";
        assert_eq!(told(hrtimer), [one("mode", false, &[(1, "REL")])]);
        let two = "__print_flags(REC->a, \"\", {1,\"x\"}), __print_symbolic((REC->b), {2,\"y\"})";
        assert_eq!(told(two), [one("a", true, &[(1, "x")]), one("b", false, &[(2, "y")])]);
    }

    #[test]
    fn what_cannot_be_told_is_left_out() {
        for text in [
            "",
            "__print_",
            "__print_symbolic",
            "__print_symbolic(",
            "__print_symbolic(REC->a",
            "__print_symbolic(REC->a)",
            "__print_symbolic(REC->a, {1, \"x\"}",
            "__print_symbolic(REC->a, {1 \"x\"})",
            "__print_symbolic(REC->a, {1, x})",
            "__print_symbolic(REC->a, {X, \"x\"})",
            "__print_symbolic(REC->a & 7, {1, \"x\"})",
            "__print_symbolic((REC->a >> 13), {1, \"x\"})",
            "__print_symbolic(2, {1, \"x\"})",
            "__print_flags((1 << REC->a), \"|\", {1, \"x\"})",
            "__print_flags(REC->a ? REC->b : 0, \"|\", {1, \"x\"})",
            "__print_flags(REC->a, {1, \"x\"})",
            "__print_hex(REC->a, 4)",
            "__print_symbolic(REC->ä, {1, \"x\"})",
            "__print_symbolic(((((REC->a)), {1, \"x\"})",
        ] {
            assert_eq!(told(text), [], "{text}");
        }
        // What cannot be told hides nothing that comes after it, or lies in it.
        let nested = "__print_symbolic(__print_flags(REC->a, \"|\", {4, \"x\"}), {1, \"y\"})";
        assert_eq!(told(nested), [one("a", true, &[(4, "x")])]);
    }

    #[test]
    fn hostile_text_ends_soon() {
        let started = std::time::Instant::now();
        for text in [
            "__print_flags(",
            "__print_symbolic(REC->a, {",
            "__print_flags(((((((",
            "__print_symbolic(REC->a, {1|",
        ] {
            assert_eq!(told(&text.repeat(50_000)), []);
        }
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
    }
}
