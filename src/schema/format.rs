//! The `format` text of a tracepoint, as tracefs gives it.

use std::sync::Arc;

use super::{Names, Show, print_fmt};

/// One field of a tracepoint's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// Its C type, for example `const char *`, arrays as `char[16]`.
    pub type_name: String,
    /// Its name.
    pub name: String,
    /// Its first byte in the record.
    pub offset: u32,
    /// Its bytes.
    pub size: u32,
    /// Whether an integer is signed.
    pub signed: bool,
    /// The names that the print fmt gives to its values or bits.
    pub show: Show,
}

/// The most fields that are read: the kernel's tracepoints have some tens.
const MOST: usize = 1024;

/// The fields of a format text after the common ones, without the names of their values; lines that are none are
/// passed over.
pub fn fields(text: &str) -> Vec<FormatField> {
    declared(text).filter(|f| !f.name.starts_with("common_")).take(MOST).collect()
}

/// The same with the common ones before them.
pub fn all_fields(text: &str) -> Vec<FormatField> {
    declared(text).take(MOST).collect()
}

fn declared(text: &str) -> impl Iterator<Item = FormatField> + '_ {
    let declared = text.split_once("print fmt:").map_or(text, |(declared, _)| declared);
    declared.lines().filter_map(field)
}

/// The same with the names that its print fmt gives to values.
///
/// The print fmt names values by numbers, and by constants that the kernel's sources name: `constants` knows
/// those, or `None`. Whatever the text holds, it ends soon and never panics.
pub fn parse(text: &str, constants: &dyn Fn(&str) -> Option<u64>) -> Vec<FormatField> {
    let print_fmt = text.split_once("print fmt:").map_or("", |(_, print_fmt)| print_fmt);
    let mut fields = fields(text);
    for table in print_fmt::tables(print_fmt, constants) {
        let named = fields.iter_mut().find(|f| f.name == table.field && f.is_integer());
        if let Some(field) = named.filter(|f| f.show == Show::Plain) {
            let values = table.entries.into_iter().map(|(value, name)| (field.fitted(value), name));
            let names = Arc::new(Names::new(values));
            field.show = if table.bits { Show::Flags(names) } else { Show::Enum(names) };
        }
    }
    fields
}

impl FormatField {
    fn is_integer(&self) -> bool {
        matches!(self.size, 1 | 2 | 4 | 8) && !self.type_name.contains(['[', '*'])
    }

    /// A constant as the field holds it.
    fn fitted(&self, value: u64) -> u64 {
        let unused = 64 - 8 * self.size.clamp(1, 8);
        if self.signed { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused }
    }
}

fn field(line: &str) -> Option<FormatField> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?.trim();
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.trim().parse::<u32>().ok();
    let offset = number("offset:")?;
    let size = number("size:")?;
    let signed = number("signed:").unwrap_or(0) != 0;
    let dynamic = ["__data_loc", "__rel_loc"].iter().any(|word| declaration.starts_with(word));
    let (base, array) = match declaration.find('[') {
        Some(at) if declaration.ends_with(']') && !dynamic => declaration.split_at(at),
        _ => (declaration, ""),
    };
    let name = base.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    let type_name = base.strip_suffix(name).filter(|before| !before.is_empty())?;
    Some(FormatField {
        type_name: format!("{}{array}", type_name.trim()),
        name: name.to_owned(),
        offset,
        size,
        signed,
        show: Show::Plain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_lines() {
        let text = "name: sys_enter_write\nID: 840\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:const char * buf;\toffset:24;\tsize:8;\tsigned:0;\n\
            \tfield:char comm[16];\toffset:32;\tsize:16;\tsigned:0;\n\
            \tfield:__data_loc char[] filename;\toffset:48;\tsize:4;\tsigned:0;\n\n\
            print fmt: \"fd: %d\", REC->fd\n";
        let fields = parse(text, &|_| None);
        let seen: Vec<_> =
            fields.iter().map(|f| (&*f.type_name, &*f.name, f.offset, f.size, f.signed)).collect();
        assert_eq!(
            seen,
            [
                ("int", "__syscall_nr", 8, 4, true),
                ("const char *", "buf", 24, 8, false),
                ("char[16]", "comm", 32, 16, false),
                ("__data_loc char[]", "filename", 48, 4, false),
            ]
        );
    }

    #[test]
    fn what_is_no_field_is_passed_over() {
        for line in [
            "field:",
            "field:x",
            "field:int a; offset:z; size:4;",
            "field:int a;",
            "\tfield:;offset:1;size:2;",
            "field:a\u{61c}b[;offset:1;size:z;",
        ] {
            assert!(parse(line, &|_| None).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_name_ends_where_a_character_of_two_bytes_begins() {
        let fields = parse("field:int\u{61c}a;offset:1;size:4;signed:1;", &|_| None);
        assert_eq!((&*fields[0].type_name, &*fields[0].name), ("int\u{61c}", "a"));
    }

    #[test]
    fn names_go_to_the_fields_that_the_print_fmt_names() {
        let text = "\tfield:unsigned char vec;\toffset:8;\tsize:1;\tsigned:0;\n\
            \tfield:int state;\toffset:12;\tsize:4;\tsigned:1;\n\
            \tfield:char name[4];\toffset:16;\tsize:4;\tsigned:0;\n\
            print fmt: \"%s\", __print_symbolic(REC->vec, {-1, \"last\"}, {2, \"two\"}), __print_flags(REC->state, \
            \"|\", {0x80000000, \"top\"}, {ONE, \"one\"}), __print_symbolic(REC->name, {1, \"x\"}), \
            __print_symbolic(REC->vec, {3, \"never\"})\n";
        let fields = parse(text, &|name| (name == "ONE").then_some(1));
        let names = |entries: &[(u64, &str)]| {
            Arc::new(Names::new(entries.iter().map(|(value, name)| (*value, (*name).into()))))
        };
        assert_eq!(fields[0].show, Show::Enum(names(&[(0xff, "last"), (2, "two")])));
        assert_eq!(fields[1].show, Show::Flags(names(&[(0xffff_ffff_8000_0000, "top"), (1, "one")])));
        assert_eq!(fields[2].show, Show::Plain, "a string has no names");
    }
}
