//! Any print fmt and any raw bytes: a line of bounded length, and an end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::schema::print::Print;

const FIELDS: &str = "name: e\nID: 7\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:long a;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield:u32 b[4];\toffset:16;\tsize:16;\tsigned:0;\n\
    \tfield:char c[16];\toffset:32;\tsize:16;\tsigned:0;\n\
    \tfield:__data_loc char[] d;\toffset:48;\tsize:4;\tsigned:0;\n\
    \tfield:__rel_loc u8[] e;\toffset:52;\tsize:4;\tsigned:0;\n\nprint fmt: ";

fuzz_target!(|input: (&str, &[u8])| {
    let (text, raw) = input;
    // A whole format text, or only what is printed of fields that there are.
    let text = if text.starts_with("name:") { text.to_owned() } else { format!("{FIELDS}{text}\n") };
    let print = Print::new(&text, &|name| name.starts_with(char::is_uppercase).then_some(name.len() as u64));
    for big_endian in [false, true] {
        let mut out = Vec::new();
        print.print(raw, big_endian, &|address| (address % 3 == 0).then(|| ("f".to_owned(), 1)), &mut out);
        assert!(out.len() <= 1 << 24, "{} bytes", out.len());
    }
});
