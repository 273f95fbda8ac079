//! Where instructions begin: a uprobe within one would alter what the program does.
//!
//! The kernel puts its breakpoint wherever it is told to (`install_breakpoint`, kernel/events/uprobes.c): within an
//! instruction the program goes on with other code than was written, and dies of it at best.

use std::path::Path;

use iced_x86::{Decoder, DecoderOptions};

use super::{elf, spec::Spec};
use crate::{Error, ErrorKind, Result};

/// Checks that an instruction begins at the spec's offset into its function, where that can be told: on x86.
///
/// # Errors
///
/// Attach: the offset is within an instruction, with those that begin around it, or beyond the function.
pub fn check(spec: &Spec, path: &str, symbol: &str) -> Result<()> {
    let Some((code, bits)) = elf::x86_code(Path::new(path), symbol)? else { return Ok(()) };
    let cannot = |why: &str| Error::new(ErrorKind::Attach, format!("{spec}: cannot attach: {why}"));
    let before = match begins(&code, bits, spec.offset) {
        Begins::Here => return Ok(()),
        Begins::Beyond => return Err(cannot(&format!("{symbol} has {:#x} bytes", code.len()))),
        Begins::Around(before, after) => (before, after),
    };
    let name = |offset| match offset {
        0 => symbol.to_owned(),
        offset => format!("{symbol}+{offset:#x}"),
    };
    Err(cannot("this is within an instruction, and a breakpoint there would alter the program")
        .with_help(format!("instructions begin at {} and {}", name(before.0), name(before.1))))
}

/// What is at an offset.
#[derive(Debug, PartialEq, Eq)]
enum Begins {
    Here,
    /// It is within the instruction that begins at the first, and the next begins at the second.
    Around(u64, u64),
    Beyond,
}

fn begins(code: &[u8], bits: u32, offset: u64) -> Begins {
    if offset >= code.len() as u64 {
        return Begins::Beyond;
    }
    let mut decoder = Decoder::new(bits, code, DecoderOptions::NONE);
    loop {
        let at = decoder.position() as u64;
        if at == offset {
            return Begins::Here;
        }
        // What is no instruction is stepped over by a byte, so this ends.
        let _ = decoder.decode();
        let next = decoder.position() as u64;
        if next > offset {
            return Begins::Around(at, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_three_lengths() {
        // push %rbp; mov %rsp,%rbp; mov $1,%eax; ret
        let code = [0x55, 0x48, 0x89, 0xe5, 0xb8, 1, 0, 0, 0, 0xc3];
        let all: Vec<Begins> = (0..11).map(|offset| begins(&code, 64, offset)).collect();
        for here in [0, 1, 4, 9] {
            assert_eq!(all[here], Begins::Here, "{here}");
        }
        for (within, around) in [(2, (1, 4)), (3, (1, 4)), (5, (4, 9)), (8, (4, 9))] {
            assert_eq!(all[within], Begins::Around(around.0, around.1), "{within}");
        }
        assert_eq!(all[10], Begins::Beyond);
    }

    #[test]
    fn any_bytes_end() {
        let code: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for offset in 0..4096 {
            assert_ne!(begins(&code, 64, offset), Begins::Beyond);
        }
    }
}
