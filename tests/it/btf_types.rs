//! The reader of BTF beside libbpf: of the same bytes both make the same fields.

use std::path::Path;

use tracer::{probe::foreign, schema::btf::Btf};

#[test]
fn the_kernels_own_structs_are_those_that_libbpf_finds() {
    let path = Path::new("/sys/kernel/btf/vmlinux");
    let Ok(bytes) = std::fs::read(path) else { return };
    let btf = Btf::parse(&bytes).unwrap();
    let theirs = foreign::structs(path).unwrap();
    let ours = btf.structs().filter_map(|of| Some((of.name.to_owned(), btf.fields(&of).ok()?)));
    let ours: Vec<_> = ours.collect();
    assert!(theirs.len() > 1000 && ours.len() == theirs.len(), "{} and {}", ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}
