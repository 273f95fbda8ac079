//! The `format` text of a tracepoint, as tracefs gives it.

use super::Show;

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

/// The fields of a format text after the common ones; lines that are none are passed over.
pub fn parse(text: &str) -> Vec<FormatField> {
    text.lines().filter_map(field).filter(|f| !f.name.starts_with("common_")).collect()
}

fn field(line: &str) -> Option<FormatField> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?.trim();
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.trim().parse::<u32>().ok();
    let offset = number("offset:")?;
    let size = number("size:")?;
    let signed = number("signed:").unwrap_or(0) != 0;
    let (base, array) = match declaration.find('[') {
        Some(at) if declaration.ends_with(']') && !declaration.starts_with("__data_loc") => {
            declaration.split_at(at)
        }
        _ => (declaration, ""),
    };
    let at = base.rfind(|c: char| !(c.is_alphanumeric() || c == '_'))? + 1;
    let (type_name, name) = base.split_at(at);
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
        let fields = parse(text);
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
        ] {
            assert!(parse(line).is_empty(), "{line}");
        }
    }
}
