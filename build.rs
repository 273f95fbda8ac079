//! Compiles the BPF objects, where the feature that loads them is on.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "probe")]
    bpf::build();
}

#[cfg(feature = "probe")]
mod bpf {
    use std::{
        env,
        path::{Path, PathBuf},
    };

    use libbpf_cargo::SkeletonBuilder;

    /// Each object: its name, its source, and what tells it from its sibling.
    const OBJECTS: [(&str, &str, &[&str]); 6] = [
        ("tracer.bpf.o", "bpf/tracer.bpf.c", &[FRAME]),
        ("tracer_strict.bpf.o", "bpf/tracer.bpf.c", &["-DTRACER_STRICT_NESTING"]),
        ("usdt.bpf.o", "bpf/usdt.bpf.c", &[FRAME]),
        ("usdt_strict.bpf.o", "bpf/usdt.bpf.c", &["-DTRACER_STRICT_NESTING"]),
        ("bench.bpf.o", "bpf/bench.bpf.c", &[]),
        ("foreign.bpf.o", "bpf/foreign.bpf.c", &[FRAME]),
    ];

    /// Objects of others, for tests: they stand in for a user's.
    const FIXTURES: [(&str, &str); 3] = [
        ("three.bpf.o", "tests/fixtures/object/three.bpf.c"),
        ("oversized.bpf.o", "tests/fixtures/object/oversized.bpf.c"),
        ("output.bpf.o", "tests/fixtures/object/output.bpf.c"),
    ];

    /// The most stack of a program: from 64 bytes on newer kernels give it one for each CPU, which uprobe programs
    /// of two tasks can write at once.
    const FRAME: &str = "-Wframe-larger-than=48";

    pub fn build() {
        println!("cargo::rerun-if-changed=bpf");
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        let fixtures = FIXTURES.map(|(object, source)| (object, source, &["-g"] as &[&str]));
        let with_tests = env::var_os("CARGO_FEATURE_TEST_UTILS").is_some();
        if with_tests {
            println!("cargo::rerun-if-changed=tests/fixtures/object");
        }
        // A packaged crate has no tests.
        let fixtures = fixtures.into_iter().filter(|(_, source, _)| with_tests && Path::new(source).exists());
        for (object, source, flags) in OBJECTS.into_iter().chain(fixtures) {
            let base = ["-Ibpf", "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"];
            let args: Vec<&str> = base.iter().chain(flags).copied().collect();
            let built = SkeletonBuilder::new().source(source).obj(out.join(object)).clang_args(args).build();
            if let Err(error) = built {
                panic!(
                    "cannot compile {source} with clang: {error:#}\n\
                     help: clang 14 or newer is needed (apt install clang); `cargo xtask run` installs it"
                );
            }
        }
    }
}
