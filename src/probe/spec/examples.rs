//! Tests: what users write, as it is understood.

use super::*;

fn spec(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn predicate(text: &str) -> Expr {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn fields(text: &str) -> Vec<String> {
    let shown = |f: &Field| format!("{:?} {} {:?}", f.alias, f.path, f.hint);
    spec(text).fields.unwrap().iter().map(shown).collect()
}

fn member(name: &str) -> Step {
    Step::Member(name.to_owned())
}

#[test]
fn plain_specs_are_shown_as_they_are_written() {
    for text in [
        "k:vfs_write",
        "k:vfs_write+0x10",
        "k:tcp_*",
        "kr:vfs_read",
        "f:vfs_read",
        "fr:vfs_read",
        "t:sched:sched_process_exec",
        "t:sched:*",
        "rt:sched_switch",
        "u:/bin/bash:readline",
        "u:/lib/x86_64-linux-gnu/libc.so.6:malloc+0x4",
        "ur:/bin/bash:readline",
        "usdt:/usr/lib/libpython3.12.so:python:function__entry",
        "o:./probes.bpf.o",
        "o:./probes.bpf.o:handle_*",
        "s:openat",
        "mine=s:write",
        "k:vfs_read/pid == 42 && count > 4096/{count, path:file.f_path.dentry.d_name.name}",
        "kr:vfs_read{ret, lat}",
        "k:vfs_read{*, kstack}",
        "k:vfs_read{kstack, *}",
        "k:vfs_read{*ptr, *}",
    ] {
        assert_eq!(spec(text).to_string(), text);
    }
    for (text, shown) in [
        ("vfs_write", "k:vfs_write"),
        ("vfs_read{ret}", "k:vfs_read{ret}"),
        ("vfs_read/comm==\"a:b\"/", "k:vfs_read/comm == \"a:b\"/"),
        ("k:vfs_write{count}/comm==\"dd\"/", "k:vfs_write/comm == \"dd\"/{count}"),
        ("kprobe:vfs_write", "k:vfs_write"),
        ("a=vfs_write", "a=k:vfs_write"),
        ("object:x.o", "o:x.o"),
        (" kprobe:vfs_read+16 /pid==1/ { a } ", "k:vfs_read+0x10/pid == 1/{a}"),
    ] {
        assert_eq!(spec(text).to_string(), shown);
    }
}

#[test]
fn the_examples_of_the_manual() {
    let all = spec("k:vfs_read/pid==42 && count>4096/{count, path:file.f_path.dentry.d_name.name}");
    assert_eq!((all.provider, all.target.as_str()), (Provider::Kprobe, "vfs_read"));
    let compare = |root: &str, op, right| Expr::Compare {
        left: Path::of(root),
        hint: None,
        op,
        right: Literal::Int(right),
    };
    assert_eq!(
        all.predicate,
        Some(Expr::And(vec![compare("pid", Op::Eq, 42), compare("count", Op::Gt, 4096)]))
    );
    let name =
        Path { steps: ["f_path", "dentry", "d_name", "name"].map(member).to_vec(), ..Path::of("file") };
    assert_eq!(
        all.fields,
        Some(vec![
            Field { alias: None, path: Path::of("count"), hint: None },
            Field { alias: Some("path".into()), path: name, hint: None },
        ])
    );
    assert_eq!(fields("kr:vfs_read{count,ret,lat}").len(), 3);
    assert_eq!(spec("k:vfs_read{}").fields, Some(Vec::new()));
    let typed = fields("u:/bin/a:f{arg0:str, arg1:s32}");
    assert_eq!(typed, ["None arg0 Some(Str)", "None arg1 Some(S32)"]);
    let dd = spec("k:vfs_write{file.f_path.dentry.d_name.name, count}");
    assert_eq!(dd.fields.map(|f| f.len()), Some(2));
    assert_eq!(predicate("pid in (1,2)").to_string(), "pid in (1, 2)");
}

#[test]
fn fields_of_every_form() {
    for (text, shown) in [
        ("sk.__sk_common.skc_dport:be16", "None sk.__sk_common.skc_dport Some(Be16)"),
        ("port : sk->__sk_common.skc_dport : be16", "Some(\"port\") sk.__sk_common.skc_dport Some(Be16)"),
        ("arr[3]", "None arr[3] None"),
        ("*ptr", "None *ptr None"),
        ("v:**ptr:x", "Some(\"v\") **ptr Some(Hex)"),
        ("(struct foo *)arg2.x", "None (struct foo *)arg2.x None"),
        ("((struct foo*) arg2)->x[0x10]", "None (struct foo *)arg2.x[16] None"),
        ("*(unsigned long **)arg1", "None *(unsigned long **)arg1 None"),
        ("path(file)", "None path(file) None"),
        ("p:path( (struct file *)arg0.f )", "Some(\"p\") path((struct file *)arg0.f) None"),
        // A word is a hint where it can be one, and a path where it cannot.
        ("a:s", "None a Some(Str)"),
        ("a:string", "None a Some(Str)"),
        ("a:s:x", "Some(\"a\") s Some(Hex)"),
        ("a:s.x", "Some(\"a\") s.x None"),
        ("a:(s)", "Some(\"a\") s None"),
        ("a:time", "None a Some(Time)"),
        ("data:buf", "Some(\"data\") buf None"),
        ("buf:buf[16]", "None buf Some(Buf(16))"),
        ("b:buf:ubuf[16]", "Some(\"b\") buf Some(UserBuf(16))"),
        ("a:(buf[3])", "Some(\"a\") buf[3] None"),
        ("buf[3]", "None buf[3] None"),
    ] {
        assert_eq!(fields(&format!("k:f{{{text}}}")), [shown], "{text}");
        let field: Field = text.parse().unwrap();
        assert_eq!(field.to_string().parse::<Field>().unwrap(), field, "{text}");
    }
}

#[test]
fn predicates_of_every_form() {
    for (text, shown) in [
        ("a||b&&!c", "a || b && !c"),
        ("(a||b)&&c", "(a || b) && c"),
        ("((a))", "a"),
        ("(a && b) && c", "(a && b) && c"),
        ("(a && b) || c", "a && b || c"),
        ("!(a==1)", "!(a == 1)"),
        ("!!a", "!!a"),
        ("! (struct foo *)a.b", "!(struct foo *)a.b"),
        ("((struct foo *)a)->b & 6", "(struct foo *)a.b & 6"),
        ("((struct foo *)a.b & 6)", "(struct foo *)a.b & 6"),
        ("(*p)", "*p"),
        ("in in (1)", "in in (1)"),
        ("comm in (\"dd\", \"cat*\")", "comm in (\"dd\", \"cat*\")"),
        ("path(file) == \"/etc/*\"", "path(file) == \"/etc/*\""),
        ("sk.dport:be16 != 0x1bb", "sk.dport:be16 != 443"),
        ("a & 0x40 || b", "a & 64 || b"),
    ] {
        assert_eq!(predicate(text).to_string(), shown);
        assert_eq!(spec(&format!("k:f/ {text} /")).predicate, Some(predicate(text)));
    }
}

#[test]
fn literals_of_every_form() {
    let literal = |text: &str| text.parse::<Literal>().unwrap_or_else(|error| panic!("{error}"));
    for (text, value) in [
        ("0", 0),
        ("42", 42),
        ("-1", -1),
        ("0x1F", 31),
        ("-0x10", -16),
        ("0o17", 15),
        ("017", 15),
        ("4K", 4096),
        ("2M", 2 << 20),
        ("-1G", -(1 << 30)),
        ("18446744073709551615", i128::from(u64::MAX)),
        ("-9223372036854775808", i128::from(i64::MIN)),
    ] {
        assert_eq!(literal(text), Literal::Int(value), "{text}");
    }
    for (text, ns) in [("10ms", 10_000_000), ("3us", 3_000), ("7ns", 7), ("1m", 60_000_000_000), ("0s", 0)] {
        assert_eq!(literal(text), Literal::Duration(ns));
    }
    assert_eq!(literal("1000us").to_string(), "1ms");
    assert_eq!(literal("90s").to_string(), "90s");
    let bytes = |text: &[u8]| Literal::Str(text.to_vec());
    assert_eq!(literal(r#""a\n\t\\\"\xff\*é""#), bytes(b"a\n\t\\\"\xff*\xc3\xa9"));
    assert_eq!(literal(r#""""#), bytes(b""));
    assert_eq!(literal(r#""a*?""#), Literal::Glob(vec![Piece::Byte(b'a'), Piece::Any, Piece::One]));
    for (text, byte) in [("'a'", b'a'), (r"'\n'", b'\n'), (r"'\x80'", 0x80), ("'*'", b'*'), (r"'\''", b'\'')]
    {
        assert_eq!(literal(text), Literal::Char(byte));
    }
    assert_eq!(literal("ENOENT"), Literal::Name { minus: false, name: "ENOENT".into() });
    assert_eq!(literal("-ENOENT"), Literal::Name { minus: true, name: "ENOENT".into() });
}

#[test]
fn the_paths_of_files_hold_colons_slashes_and_blanks() {
    for (text, scope, target) in [
        ("u:/opt/a:b/c.so:f", "/opt/a:b/c.so", "f"),
        ("u:/opt/a:b/c.so:f/pid == 1/", "/opt/a:b/c.so", "f"),
        ("u:/opt/a:b/c.so:f{arg0:str}", "/opt/a:b/c.so", "f"),
        ("u:/lib/x86:64.so:f/arg0:str==\"x:y/z\"/{a:arg0}", "/lib/x86:64.so", "f"),
        (r"u:/My\ App/\{1\}:f/a/", "/My App/{1}", "f"),
        ("u:bash:readline", "bash", "readline"),
        ("u:/a.so:_ZN3fooC1Ev", "/a.so", "_ZN3fooC1Ev"),
        ("usdt:/a:b/c:p:n{arg0}", "/a:b/c", "p:n"),
        ("usdt:/a.so:*:n?", "/a.so", "*:n?"),
        ("o:/a/b:c-d.bpf.o", "/a/b:c-d.bpf.o", ""),
        ("o:/a/b.bpf.o:p{x}", "/a/b.bpf.o", "p"),
        ("o:/a/b.bpf.o {x}", "/a/b.bpf.o", ""),
    ] {
        let spec = spec(text);
        assert_eq!((spec.scope.as_str(), spec.target.as_str()), (scope, target), "{text}");
        assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec, "{spec}");
    }
}

#[test]
fn events_have_names() {
    for (text, name) in [
        ("k:f", "f"),
        ("kr:f", "f_return"),
        ("ur:/a:f", "f_return"),
        ("x=fr:f", "x"),
        ("usdt:/a:p:n", "n"),
        ("o:/a/b.bpf.o", "b"),
        ("o:/a/b.bpf.o:p", "p"),
    ] {
        assert_eq!(spec(text).event_name(), name);
    }
}

#[test]
fn what_is_not_served_yet_is_named() {
    for (text, what) in [
        ("k:f", None),
        ("u:/a:f+4", None),
        ("k:tcp_*", None),
        ("t:sch?d:x", None),
        ("u:/a:mall*", None),
        ("o:x.o:handle_*", Some("wildcards among the programs of an object")),
        ("k:f/pid == 1/", None),
        ("k:f{}", None),
        ("usdt:/a:p:n", None),
        ("o:x.o", None),
    ] {
        assert_eq!(unsupported(&spec(text)), what);
    }
}
