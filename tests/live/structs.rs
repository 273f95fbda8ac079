//! Functions of programs by their debug info: what a C and a Rust program gave them, by name and type.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::Signal;
use tracer::probe;

use crate::context::Context;
use crate::skip;
use crate::table::{Kernel, Outcome, Stop, Test};
use crate::trace::{Event, Trace};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("structs::fields_of_a_c_program", fields_of_a_c_program).on_host(),
    Test::new("structs::every_parameter_by_name", every_parameter_by_name).on_host(),
    Test::new("structs::predicates_on_fields", predicates_on_fields).on_host(),
    Test::new("structs::arguments_at_a_return", arguments_at_a_return).on_host(),
    Test::new("structs::a_rust_program", a_rust_program).on_host(),
    Test::new("structs::debug_info_beside_the_program", debug_info_beside_the_program).on_host(),
    Test::new("structs::without_debug_info", without_debug_info).on_host(),
    Test::new("structs::what_cannot_be_is_told", what_cannot_be_is_told).on_host(),
    Test::new("structs::signatures_are_listed", signatures_are_listed).on_host(),
    Test::new("structs::what_bpftrace_prints_of_them", what_bpftrace_prints_of_them)
        .on_host()
        .may_skip(&[Kernel::Host]),
    Test::new("structs::damaged_debug_info_is_survived", damaged_debug_info_is_survived).on_host(),
];

/// How often the program calls each of its functions.
const CALLS: u64 = 5;

/// Calls its functions, the i-th time with what can be told from i.
const SOURCE: &str = r#"
#include <stdio.h>
enum kind { GET, PUT = 5, DEL };
typedef unsigned short port_t;
struct peer { port_t port; char host[16]; unsigned ok : 1, level : 5; signed int low : 6; };
struct request {
	const char *name; struct peer peer; struct peer *from; enum kind kind; int codes[4];
	short grid[2][3]; union { long whole; struct { int low, high; }; }; double weight;
};
struct two { int a, b; };
struct big { long a[4]; };
typedef struct request *request_t;
#define WORK __attribute__((noinline, used)) 
#define KEEP asm volatile("" ::: "memory")
WORK long handle(request_t req, int count, char tag, int *place) { KEEP; return req->codes[0] + count + tag + *place; }
WORK long mixed(double d, struct two t, struct big g, const char *text, _Bool b) { KEEP; return (long)d + t.a + g.a[0] + *text + b; }
WORK struct big giant(long first, unsigned char second) { KEEP; return (struct big){{first, second}}; }
WORK long many(long a, long b, long c, long d, long e, long f, long g) { KEEP; return a + b + c + d + e + f + g; }
WORK long nothing(void) { KEEP; return -1; }
WORK long opaque(void *cookie) { KEEP; return *(long *)cookie; }
#ifdef OTHER
int other = 1;
#endif
int main(void)
{
	for (int i = 1; i <= 5; i++) {
		char name[32]; snprintf(name, sizeof(name), "job-%d", i);
		struct peer from = {9000 + i, "away", 0, 7, -i};
		struct request req = {name, {8000 + i, "here", 1, i, i}, &from, i % 2 ? PUT : DEL, {i, -i, 3, 4},
			{{1, 2, 3}, {4, 5, -i}}, {((long)i << 32) | 77}, 1.5};
		int place = 100 * i;
		volatile long sum = handle(&req, -i, 'a' + i, &place)
			+ mixed(1.5, (struct two){i, 2}, (struct big){{1}}, name, i & 1)
			+ giant(i, 200 + i).a[0] + many(1, 2, 3, 4, 5, i, 7) + nothing() + opaque(&req);
	}
	return 0;
}
"#;

/// Compiles it.
fn build(ctx: &Context, name: &str, flags: &[&str]) -> Result<String> {
    let (source, program) = (ctx.scratch.join("prog.c"), ctx.scratch.join(name));
    std::fs::write(&source, SOURCE)?;
    let (source, program) = (source.display().to_string(), program.display().to_string());
    let words = [flags, &["-O1", "-Wl,--build-id", "-o", &program, &source]].concat();
    ctx.job("clang", words).succeed()?;
    Ok(program)
}

fn trace(ctx: &Context, spec: &str, program: &str) -> Result<Trace, Stop> {
    let seen = Trace::read(&ctx.tracer(["run", "-f", "json", spec, "--", program]).succeed()?.stdout)?;
    seen.sound()?;
    Ok(seen)
}

fn calls() -> impl Iterator<Item = u64> {
    1..=CALLS
}

fn negative(of: u64) -> u64 {
    of.wrapping_neg()
}

/// The fields that are looked at of a request, each beside what it is called.
const FIELDS: &str = "name:req.name,port:req.peer.port,host:req.peer.host,level:req.peer.level,low:req.peer.low,\
    away:req.from.port,from_low:req.from.low,kind:req.kind,codes:req.codes,second:req.codes[1],grid:req.grid[1][2],\
    whole:req.whole,high:req.high,count,place:*place";

fn is_request(event: &Event, i: u64) {
    assert_eq!(event.text("name"), format!("job-{i}"));
    assert_eq!(event.text("host"), "here");
    assert_eq!(event.shown("kind"), if i % 2 == 1 { "PUT" } else { "DEL" });
    assert_eq!(event.list("codes"), [i, negative(i), 3, 4]);
    let numbers = ["port", "level", "low", "away", "from_low", "second", "grid", "whole", "high", "count"];
    let seen = numbers.map(|name| event.arg(name));
    let (minus, whole) = (negative(i), i << 32 | 77);
    assert_eq!(seen, [8000 + i, i, i, 9000 + i, minus, minus, minus, whole, i, minus]);
    assert_eq!(event.arg("place"), 100 * i);
}

fn fields_of_a_c_program(ctx: &Context) -> Outcome {
    for flags in
        [&["-gdwarf-5"][..], &["-gdwarf-4"], &["-gdwarf-5", "-gz=zlib"], &["-gdwarf-2", "-gstrict-dwarf"]]
    {
        let program = build(ctx, "prog", flags)?;
        let seen = trace(ctx, &format!("u:{program}:handle{{{FIELDS}}}"), &program)?;
        assert_eq!(seen.events().count() as u64, CALLS, "{flags:?}");
        seen.events().zip(calls()).for_each(|(event, i)| is_request(event, i));
    }
    Ok(())
}

fn every_parameter_by_name(ctx: &Context) -> Outcome {
    let program = build(ctx, "prog", &["-g"])?;
    let seen = trace(ctx, &format!("u:{program}:handle"), &program)?;
    for (event, i) in seen.events().zip(calls()) {
        assert_eq!((event.arg("count"), event.arg("tag")), (negative(i), u64::from(b'a') + i));
        assert!(event.arg("req") != 0 && event.arg("place") != 0);
    }
    // A double and two structures before them take one of the registers.
    let seen = trace(ctx, &format!("u:{program}:mixed"), &program)?;
    let shown: Vec<(&str, u64)> = seen.events().map(|event| (event.text("text"), event.arg("b"))).collect();
    assert_eq!(shown, [("job-1", 1), ("job-2", 0), ("job-3", 1), ("job-4", 0), ("job-5", 1)]);
    // The first register has the place of what is returned.
    let seen = trace(ctx, &format!("u:{program}:giant"), &program)?;
    let shown: Vec<(u64, u64)> =
        seen.events().map(|event| (event.arg("first"), event.arg("second"))).collect();
    assert_eq!(shown, calls().map(|i| (i, 200 + i)).collect::<Vec<_>>());
    // One program for all of them: each event has its own function's parameters.
    let seen = trace(ctx, &format!("u:{program}:m[a]ny").replace("m[a]ny", "m?ny"), &program)?;
    let shown: Vec<u64> = seen.events().map(|event| event.arg("f")).collect();
    assert_eq!(shown, calls().collect::<Vec<_>>());
    Ok(())
}

fn predicates_on_fields(ctx: &Context) -> Outcome {
    let program = build(ctx, "prog", &["-g"])?;
    let cases: [(&str, &[u64]); 6] = [
        ("req.kind==PUT && req.peer.port>8001", &[3, 5]),
        ("req.name==\"job-4\"", &[4]),
        ("req.name==\"job-?\" && req.from.low<=-4", &[4, 5]),
        ("req.peer.level==2 || *place==500", &[2, 5]),
        ("count<-3", &[4, 5]),
        ("tag=='b'", &[1]),
    ];
    for (predicate, expected) in cases {
        let spec = format!("u:{program}:handle/{predicate}/{{level:req.peer.level}}");
        let seen = trace(ctx, &spec, &program)?;
        let passed: Vec<u64> = seen.events().map(|event| event.arg("level")).collect();
        assert_eq!(passed, expected, "{predicate}");
        assert_eq!(seen.footer.probes[0].filtered, CALLS - passed.len() as u64, "{predicate}");
    }
    Ok(())
}

fn arguments_at_a_return(ctx: &Context) -> Outcome {
    let program = build(ctx, "prog", &["-g"])?;
    let seen = trace(ctx, &format!("ur:{program}:handle{{ret,lat,req.name,count}}"), &program)?;
    for (event, i) in seen.events().zip(calls()) {
        assert_eq!((event.text("req.name"), event.arg("count")), (&*format!("job-{i}"), negative(i)));
        assert_eq!(event.arg("ret"), u64::from(b'a') + 101 * i);
        assert!(event.arg("lat") > 0);
    }
    let seen = trace(ctx, &format!("ur:{program}:nothing"), &program)?;
    assert_eq!(
        seen.events().map(|event| event.arg("ret")).collect::<Vec<_>>(),
        [negative(1); CALLS as usize]
    );
    Ok(())
}

const RUST: &str = r#"
use std::hint::black_box;
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum Kind { Get, Put = 5 }
pub struct Peer { pub port: u16 }
pub struct Request { pub id: u64, pub peer: Peer, pub from: Box<Peer>, pub kind: Kind, pub codes: [i32; 3] }
#[unsafe(no_mangle)]
#[inline(never)]
pub fn rust_handle(req: &Request, name: &str, count: i32) -> u64 {
    black_box((req.id, name.len(), count));
    req.id
}
fn main() {
    for i in 1..=5 {
        let (from, kind) = (Box::new(Peer { port: 9 }), if i % 2 == 0 { Kind::Put } else { Kind::Get });
        let req = Request { id: i, peer: Peer { port: 8000 + i as u16 }, from, kind, codes: [1, -(i as i32), 3] };
        black_box(rust_handle(black_box(&req), black_box("abc"), -(i as i32)));
    }
}
"#;

fn a_rust_program(ctx: &Context) -> Outcome {
    let (source, program) = (ctx.scratch.join("prog.rs"), ctx.scratch.join("rust"));
    std::fs::write(&source, RUST)?;
    let program = program.display().to_string();
    let words = ["--edition=2024", "-g", "-O", "-o", &program, &source.display().to_string()];
    ctx.job("rustc", words).succeed()?;
    let fields = "id:req.id,port:req.peer.port,away:req.from.port,kind:req.kind,code:req.codes[1],count";
    let seen = trace(ctx, &format!("u:{program}:rust_handle{{{fields}}}"), &program)?;
    assert_eq!(seen.events().count() as u64, CALLS);
    for (event, i) in seen.events().zip(calls()) {
        let numbers = ["id", "port", "away", "code", "count"].map(|name| event.arg(name));
        assert_eq!(numbers, [i, 8000 + i, 9, negative(i), negative(i)]);
        assert_eq!(event.shown("kind"), if i % 2 == 0 { "Put" } else { "Get" });
    }
    let seen = trace(ctx, &format!("ur:{program}:rust_handle{{ret,req.id}}"), &program)?;
    seen.events()
        .zip(calls())
        .for_each(|(event, i)| assert_eq!((event.arg("ret"), event.arg("req.id")), (i, i)));
    Ok(())
}

fn debug_info_beside_the_program(ctx: &Context) -> Outcome {
    let program = build(ctx, "prog", &["-g"])?;
    let debug = format!("{program}.debug");
    ctx.job("objcopy", ["--only-keep-debug", &program, &debug]).succeed()?;
    ctx.job("objcopy", ["--strip-debug", &format!("--add-gnu-debuglink={debug}"), &program]).succeed()?;
    let spec = format!("u:{program}:handle{{{FIELDS}}}");
    let seen = trace(ctx, &spec, &program)?;
    assert_eq!(seen.events().count() as u64, CALLS);
    seen.events().zip(calls()).for_each(|(event, i)| is_request(event, i));
    // That of another build is not taken for it.
    let other = build(ctx, "other", &["-g", "-DOTHER"])?;
    std::fs::rename(other, &debug)?;
    let ran = ctx.tracer(["run", &spec]).run()?;
    assert!(ran.code() == 2 && ran.stderr.contains("has no debug info: compile it with -g"), "{ran}");
    Ok(())
}

fn without_debug_info(ctx: &Context) -> Outcome {
    // For backtraces alone there are functions, and none has parameters.
    for flags in [&["-g0"][..], &["-gline-tables-only"]] {
        let program = build(ctx, "prog", flags)?;
        let seen = trace(ctx, &format!("u:{program}:handle{{arg1:s32,arg5}}"), &program)?;
        assert_eq!(
            seen.events().map(|event| event.arg("arg1")).collect::<Vec<_>>(),
            calls().map(negative).collect::<Vec<_>>()
        );
        let seen = trace(ctx, &format!("u:{program}:handle"), &program)?;
        assert!(seen.events().all(|event| event.arg("arg0") != 0 && event.arg("arg3") != 0));
        for field in ["req.name", "arg0.name", "count"] {
            let ran = ctx.tracer(["run", &format!("u:{program}:handle{{{field}}}")]).run()?;
            assert!(ran.code() == 2 && ran.stderr.contains("compile it with -g"), "{ran}");
        }
    }
    Ok(())
}

fn what_cannot_be_is_told(ctx: &Context) -> Outcome {
    let program = build(ctx, "prog", &["-g"])?;
    let cases = [
        ("u", "handle{rek.name}", "did you mean req?"),
        ("u", "handle{req.peer.prot}", "did you mean port?"),
        ("u", "handle{req.peer}", "'struct peer' is no value"),
        ("u", "handle{req.codes[4]}", "has 4 elements"),
        ("u", "handle{path(req)}", "path() is of the kernel's structures"),
        ("u", "handle{(struct none *)req.x}", "there is no type 'struct none'"),
        ("u", "mixed{t.a}", "'t' is a 'struct two' by value"),
        ("u", "mixed{d}", "'d' is a 'double': floating-point"),
        ("u", "many{g}", "'g' is passed on the stack"),
        ("u", "nothing{arg0}", "has no 'arg0'"),
        ("ur", "giant{ret}", "'ret' is a 'struct big' by value"),
        ("u", "handle/req.kind==POST/", "names"),
    ];
    for (provider, rest, says) in cases {
        let ran = ctx.tracer(["run", &format!("{provider}:{program}:{rest}")]).run()?;
        assert!(ran.code() == 2 && ran.stderr.contains(says) && ran.stdout.is_empty(), "{rest}: {ran}");
    }
    // What C forgot a cast tells, of the program's own types.
    let spec = format!("u:{program}:opaque{{port:(struct request *)cookie.peer.port}}");
    let seen = trace(ctx, &spec, &program)?;
    assert_eq!(
        seen.events().map(|event| event.arg("port")).collect::<Vec<_>>(),
        calls().map(|i| 8000 + i).collect::<Vec<_>>()
    );
    Ok(())
}

fn signatures_are_listed(ctx: &Context) -> Outcome {
    let program = build(ctx, "prog", &["-g"])?;
    let listed = ctx.tracer(["list", &format!("u:{program}:*")]).succeed()?.stdout;
    for line in [
        "handle(request_t req, int count, char tag, int *place) -> long",
        "mixed(double d, struct two t, struct big g, const char *text, _Bool b) -> long",
        "giant(long first, unsigned char second) -> struct big",
        "nothing() -> long",
    ] {
        assert!(listed.lines().any(|l| l.ends_with(line)), "{line}\n{listed}");
    }
    let fields = "req.name,req.kind,codes:req.codes";
    let schema = ctx.tracer(["schema", &format!("u:{program}:handle{{{fields}}}")]).succeed()?.stdout;
    assert!(["req.name", "req.kind", "codes"].iter().all(|name| schema.contains(name)), "{schema}");
    Ok(())
}

/// The same program without debug info is theirs, which some of it makes bpftrace 0.17 abort: their script says what
/// the structure is.
fn what_bpftrace_prints_of_them(ctx: &Context) -> Outcome {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/bin:/usr/local/bin";
    if !folders.split(':').any(|folder| Path::new(folder).join("bpftrace").is_file()) {
        skip!("bpftrace is not installed (cargo xtask setup --tests installs it)");
    }
    let (program, plain) = (build(ctx, "prog", &["-g"])?, build(ctx, "plain", &["-g0"])?);
    let script = format!(
        "struct peer {{ unsigned short port; char host[16]; unsigned bits; }};
         struct request {{ const char *name; struct peer peer; struct peer *from; int kind; int codes[4]; }};
         BEGIN {{ printf(\"ready\\n\"); }}
         uprobe:{plain}:handle {{
             $r = (struct request *)arg0;
             printf(\"%s %d %d %s %d %d\\n\", str($r->name), $r->peer.port, $r->from->port, $r->peer.host,
                 $r->kind, $r->codes[2]);
         }}"
    );
    let file = ctx.scratch.join("script.bt");
    std::fs::write(&file, script)?;
    let there = "mount -t debugfs none /sys/kernel/debug 2>/dev/null; \
        mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec bpftrace -B none \"$0\"";
    let mut theirs = ctx.job("unshare", ["-m", "sh", "-c", there, &file.display().to_string()]).start()?;
    theirs.until("bpftrace reads", |job| job.stdout().contains("ready\n"))?;
    let fields = "name:req.name,port:req.peer.port,away:req.from.port,host:req.peer.host,kind:req.kind:d,c:req.codes[2]";
    let seen = trace(ctx, &format!("u:{program}:handle{{{fields}}}"), &program)?;
    ctx.job(&plain, [""; 0]).succeed()?;
    // Once it is told to end it reads no more.
    theirs.until("all calls", |job| job.stdout().matches("\njob-").count() as u64 >= CALLS)?;
    theirs.signal(Signal::SIGINT)?;
    let theirs = theirs.finish()?;
    let printed: Vec<&str> = theirs.stdout.lines().filter(|line| line.starts_with("job-")).collect();
    let line = |event: &Event| {
        let numbers = ["port", "away", "kind", "c"].map(|name| event.arg(name));
        let [port, away, kind, code] = numbers;
        format!("{} {port} {away} {} {kind} {code}", event.text("name"), event.text("host"))
    };
    assert_eq!(printed, seen.events().map(line).collect::<Vec<_>>(), "{theirs}");
    assert_eq!(printed.len() as u64, CALLS);
    Ok(())
}

/// Every so many bytes of what describes it are turned round, and it is asked for again: an answer or an error, soon.
fn damaged_debug_info_is_survived(ctx: &Context) -> Outcome {
    const TURNS: usize = 400;
    let program = PathBuf::from(build(ctx, "prog", &["-g"])?);
    let whole = std::fs::read(&program)?;
    let spec: probe::Spec = format!("u:{}:handle{{{FIELDS}}}", program.display()).parse()?;
    probe::find(&spec)?.schemas()?;
    // Debug info comes after what is loaded.
    let first = whole.windows(5).position(|w| w == b"clang" || w == b"Debia").unwrap_or(whole.len() / 3);
    let (start, mut refused) = (Instant::now(), 0);
    for turn in 0..TURNS {
        let mut damaged = whole.clone();
        let mut at = first + turn * (whole.len() - first) / TURNS;
        for step in 1..=3 {
            damaged[at] ^= 0x41 * step as u8;
            at = (at + 7 * step).min(whole.len() - 1);
        }
        std::fs::write(&program, &damaged)?;
        refused += usize::from(probe::find(&spec).and_then(|found| found.schemas()).is_err());
    }
    println!("{refused} of {TURNS} damaged files were refused, in {:?}", start.elapsed());
    assert!(refused > 0 && refused < TURNS, "{refused} of {TURNS}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    Ok(())
}
