//! Which host this is, and its clocks.

use std::fs;

use nix::sys::utsname::uname;

use crate::sink::Clock;

/// What a stream's header says of the host.
#[derive(Clone, Debug)]
pub struct Host {
    pub name: String,
    pub release: String,
    pub boot_id: String,
    pub clock: Clock,
}

impl Host {
    /// Asks the host; what it does not tell is empty.
    pub fn read() -> Host {
        let names = uname().ok();
        let text = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
        Host {
            name: text(names.as_ref().map(|n| n.nodename())),
            release: text(names.as_ref().map(|n| n.release())),
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            clock: Clock::now(),
        }
    }
}
