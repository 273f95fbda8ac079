//! Lines as perf prints them.

use super::*;

const HEAD: &str = "name: x\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:int fd;\toffset:8;\tsize:4;\tsigned:1;\n\
    \tfield:__data_loc char[] path;\toffset:12;\tsize:4;\tsigned:0;\n\
    \tfield:char comm[8];\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:u64 flags;\toffset:24;\tsize:8;\tsigned:0;\n\
    \tfield:__u8 addr[4];\toffset:32;\tsize:4;\tsigned:0;\n\
    \tfield:__rel_loc u16[] list;\toffset:36;\tsize:4;\tsigned:0;\n\
    \tfield:void * ptr;\toffset:40;\tsize:8;\tsigned:0;\n\n";

fn raw(big: bool) -> Vec<u8> {
    let u16 = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let u32 = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let u64 = |n: u64| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut raw = Vec::new();
    raw.extend(u16(7));
    raw.extend([0, 0]);
    raw.extend(u32(1234));
    raw.extend(u32(-2i32 as u32));
    raw.extend(u32(5 << 16 | 48));
    raw.extend(b"dd\0xxxxx");
    raw.extend(u64(0x1_0000_0005));
    raw.extend([10, 0, 0, 1]);
    raw.extend(u32(4 << 16 | (54 - 40)));
    raw.extend(u64(0xffff_8880_1234_5678));
    raw.extend(b"/tmp\0\0");
    raw.extend(u16(300));
    raw.extend(u16(2));
    raw
}

fn both(print_fmt: &str) -> [String; 2] {
    let text = format!("{HEAD}print fmt: {print_fmt}\n");
    let print = Print::new(&text, &|name| (name == "FIVE").then_some(5));
    let symbol = |address: u64| (address == 0xffff_8880_1234_5678).then_some(("vfs_write".to_owned(), 16));
    [false, true].map(|big| {
        let mut out = Vec::new();
        print.print(&raw(big), big, &symbol, &mut out);
        String::from_utf8(out).unwrap()
    })
}

fn shown(print_fmt: &str) -> String {
    let [little, big] = both(print_fmt);
    assert_eq!(little, big, "in both byte orders");
    little
}

#[test]
fn numbers_as_printf_shows_them() {
    assert_eq!(
        shown(
            "\"%d %u %x %lld %5d|%-5d|%05d|%+d\", REC->fd, REC->fd, REC->fd, REC->fd, REC->fd, REC->fd, REC->fd, 5"
        ),
        "-2 4294967294 fffffffe 4294967294    -2|-2   |-0002|+5"
    );
    assert_eq!(
        shown("\"%#x %#o %hhu %hd %c %% %08llx %.3d\", 255, 8, 511, 65535, 65, REC->flags, 7"),
        "0xff 010 255 -1 A % 100000005 007"
    );
    assert_eq!(shown("\"%*d|%-*d|\", 4, 1, 3, 2"), "   1|2  |");
}

#[test]
fn strings() {
    assert_eq!(
        shown("\"%s %s|%6s|%-4s|%.1s\", __get_str(path), REC->comm, REC->comm, REC->comm, REC->comm"),
        "/tmp dd|    dd|dd  |d"
    );
    assert_eq!(
        shown("\"%s%s\", REC->fd ? \"yes\" : \"no\", REC->fd == 0 ? \"a\" \"b\" : \"c\\td\""),
        "yesc\td"
    );
    assert_eq!(shown("\"a\" \"b %s\", REC->ptr"), "ab ffff888012345678");
}

#[test]
fn names() {
    let flags = |value: &str| {
        format!(
            "\"%s\", __print_flags({value}, \"|\", {{ 1, \"A\" }}, {{ (1 << 2), \"C\" }}, {{ 0, ((void *)0) }})"
        )
    };
    assert_eq!(shown(&flags("REC->flags & 0xff")), "A|C");
    assert_eq!(shown(&flags("REC->flags")), "A|C|0x100000000");
    assert_eq!(shown(&flags("0")), "");
    let gfp = "\"%s\", __print_flags(REC->flags & 7, \"|\", { ( unsigned long)((( gfp_t)((((1UL))) << (0))|(( gfp_t)4)) & \
        ~(( gfp_t)((((1UL))) << (1)))), \"GFP\" })";
    assert_eq!(shown(gfp), "GFP");
    assert_eq!(shown("\"%s\", __print_symbolic(REC->flags & 7, { FIVE, \"five\" })"), "five");
    assert_eq!(shown("\"%s\", __print_symbolic(0, { MODE_ABS, \"ABS\" })"), "0x0");
    assert_eq!(shown("\"%u\", REC->common_type"), "7");
    assert_eq!(shown("\"%s\", __print_symbolic(REC->fd, { 1, \"x\" })"), "0xfffffffe");
}

#[test]
fn expressions() {
    assert_eq!(shown("\"%d\", 2 + 3 * 4 - (10 >> 1) % 3"), "12");
    assert_eq!(shown("\"%d\", (REC->flags & 4) && !(REC->flags & 2) || 0"), "1");
    assert_eq!(shown("\"%llu\", (unsigned int)REC->flags"), "5");
    assert_eq!(shown("\"%llu %llu\", (u64)(unsigned long)REC->flags >> 32, ~0 & 0xf"), "1 15");
    assert_eq!(shown("\"%d\", (int)(u8)REC->fd"), "254");
    assert_eq!(shown("\"%u %u %d\", REC->addr[0], ((u16 *)__get_rel_dynamic_array(list))[1], -1"), "10 2 -1");
    assert_eq!(shown("\"%d %d\", sizeof(u32), __get_dynamic_array_len(path)"), "4 5");
    assert_eq!(shown("\"%d %d\", 1 / 0, UNKNOWN"), "0 0");
}

#[test]
fn bytes_and_addresses() {
    assert_eq!(
        shown("\"%pI4 %pM %s\", REC->addr, REC->addr, __print_hex(REC->addr, 3)"),
        "10.0.0.1 0a:00:00:01:00:00 0a 00 00"
    );
    assert_eq!(
        shown("\"%s %s\", __print_array(__get_rel_dynamic_array(list), 2, 2), __print_hex_str(REC->addr, 4)"),
        "300 2 0a000001"
    );
    assert_eq!(
        shown("\"%p %ps %pS %p\", REC->ptr, REC->ptr, REC->ptr, 0"),
        "0xffff888012345678 vfs_write vfs_write+0x10 (nil)"
    );
    assert_eq!(shown("\"%4phN\", REC->addr"), "0a000001");
}

#[test]
fn a_print_fmt_that_cannot_be_read_shows_fields_by_name() {
    let [little, big] = both("\"%s\", some_function(REC->fd)");
    let told = |list: &str| {
        format!(
            "[FAILED TO PARSE] fd=-2 path=/tmp comm=dd flags=4294967301 addr=ARRAY[0a, 00, 00, 01] \
             list=ARRAY[{list}] ptr=0xffff888012345678"
        )
    };
    assert_eq!([little, big], [told("2c, 01, 02, 00"), told("01, 2c, 00, 02")]);
}

#[test]
fn hostile_texts_and_records_end_soon() {
    let started = std::time::Instant::now();
    for piece in [
        "(",
        "REC->fd ? ",
        "-",
        "1+",
        "__print_flags(",
        "\"a\" ",
        "%d",
        "(u8)",
        "REC->addr[",
        "1 ? 2 : ",
        "{1,",
        "~",
    ] {
        for tail in ["", "1", "REC->fd"] {
            let text = format!("{HEAD}print fmt: \"%d\", {}{tail}", piece.repeat(100_000));
            Print::new(&text, &|_| None).print(&raw(false), false, &|_| None, &mut Vec::new());
        }
    }
    let text = format!("{HEAD}print fmt: \"%9999999999999999999d %*s\", 1, -1, REC->comm");
    let print = Print::new(&text, &|_| None);
    for len in 0..raw(false).len() {
        let mut out = Vec::new();
        print.print(&raw(false)[..len], false, &|_| None, &mut out);
        assert!(out.len() < 10_000);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
}

/// perf 6.1 takes `a & (b | c)` for `(a & b) | c`, here and in kmem:mm_page_alloc_extfrag. What the kernel means is shown.
#[test]
fn parentheses_bind() {
    let timer = "\"flags=%s\", __print_flags(REC->fd & (0x00040000 | 0x00080000 | 0x00100000 | 0x00200000), \"|\", \
                 { 0x00040000, \"M\" }, { 0x00080000, \"D\" }, { 0x00100000, \"P\" }, { 0x00200000, \"I\" })";
    assert_eq!(shown(timer), "flags=M|D|P|I");
    assert_eq!(shown(&timer.replace("REC->fd", "(REC->fd & ~0x00340000)")), "flags=D");
    assert_eq!(shown("\"%d\", 3 < (9 < 10 ? 2 : 10)"), "0");
}
