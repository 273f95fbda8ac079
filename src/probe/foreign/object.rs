//! A user's own BPF object: opened, its variables set, loaded, its programs attached.

use std::{os::fd::OwnedFd, path::Path};

use libbpf_rs::{Link, MapCore, MapType, Object, ObjectBuilder, OpenObject, btf::Btf};

use super::{
    super::{object, preflight, spec::Spec, tracefs},
    Settings, layout,
    marker::keep,
    ringbuf::Ringbuf,
    shape, variables,
};
use crate::{Error, ErrorKind, Result, schema::Shapes};

/// A map whose events are read.
#[derive(Debug)]
pub struct ForeignMap {
    /// Its name.
    pub name: String,
    /// What its events may be.
    pub shapes: Shapes,
    /// How that is known, for a message.
    pub how: String,
    /// How it is read.
    pub reading: MapReading,
}

/// How a map is read.
#[derive(Debug)]
pub enum MapReading {
    /// By rings of ours in the slots of a perf event array, of which there are so many.
    Array(OwnedFd, u32),
    /// By libbpf.
    Ringbuf(Ringbuf),
}

/// A user's object that is loaded.
#[derive(Debug)]
pub struct ForeignObject {
    spec: Spec,
    object: Object,
    links: Vec<Link>,
    /// Programs that are attached, and those that are not and why.
    said: Vec<String>,
    /// Of the settings, those that this object has.
    used: Vec<String>,
}

impl ForeignObject {
    /// Opens an object and loads it; no program is attached yet. Gives the maps whose events are to be read.
    ///
    /// # Errors
    ///
    /// Attach: there is no such file, it is no BPF object, it has no such program, a struct cannot be as the settings
    /// say, or the kernel refuses a program. Usage: a variable cannot have its value.
    pub fn load(
        spec: &Spec,
        settings: &Settings,
        possible: usize,
    ) -> Result<(ForeignObject, Vec<ForeignMap>)> {
        let path = Path::new(&spec.scope);
        let why = |why: String| Error::new(ErrorKind::Attach, format!("{spec}: {why}"));
        let btf = read_btf(path).map_err(why)?;
        let mut open = open(path).map_err(why)?;
        choose_programs(&mut open, spec)?;
        let mut used = Vec::new();
        if !settings.set.is_empty() {
            // The compiler leaves the places of variables to whoever opens the object: those of the file's own BTF
            // are all 0.
            let bytes = std::fs::read(path).map_err(|e| why(format!("reading it: {e}")))?;
            let placed = Btf::from_raw("object", &bytes).ok().flatten();
            for (name, value) in &settings.set {
                let set = |btf: &Btf<'_>| variables::set(&mut open, btf, name, value);
                let set = placed.as_ref().map_or(Ok(false), set);
                if set.map_err(|e| Error::usage(format!("{spec}: --set {name}: {e}")))? {
                    used.push(name.clone());
                }
            }
        }
        let mut read = Vec::new();
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let ringbuf = match map.map_type() {
                MapType::PerfEventArray => false,
                MapType::RingBuf => true,
                _ => continue,
            };
            if !ringbuf && (map.max_entries() as usize) < possible {
                // What the object's own loader would do; with fewer slots, outputs on other CPUs fail unseen.
                map.set_max_entries(possible as u32).map_err(|e| why(format!("sizing {name}: {e}")))?;
            }
            let asked = settings.event(&name);
            if asked.is_some() {
                used.push(name.clone());
            }
            let known = shape::of_map(btf.as_ref(), &name, &spec.to_string(), asked, ringbuf);
            let known = known.map_err(|e| why(format!("the events of '{name}': {e}")))?;
            read.push((name, known, ringbuf));
        }
        if read.is_empty() {
            return Err(why("it has neither a perf event array nor a ringbuf to be read".into()));
        }
        let object = load(open, spec)?;
        let maps = read.into_iter().map(|(name, known, ringbuf)| {
            let map = object.maps().find(|m| m.name() == name.as_str());
            let map = map.ok_or_else(|| why(format!("its map '{name}' is not there")))?;
            let reading = match ringbuf {
                true => MapReading::Ringbuf(Ringbuf::new(&map)?),
                false => MapReading::Array(keep(&map)?, map.max_entries()),
            };
            Ok(ForeignMap { name, shapes: known.shapes, how: known.how, reading })
        });
        let maps = maps.collect::<Result<_>>()?;
        let spec = spec.clone();
        Ok((ForeignObject { spec, object, links: Vec::new(), said: Vec::new(), used }, maps))
    }

    /// Attaches every program whose section says where; all or, on failure, none.
    ///
    /// # Errors
    ///
    /// Attach: what the kernel or libbpf said, or no program says where. Precondition: a tracepoint is wanted, and
    /// tracefs can neither be read nor mounted.
    pub fn attach(&mut self) -> Result<()> {
        let section = |p: &libbpf_rs::Program<'_>| p.section().to_string_lossy().into_owned();
        let by_id = |section: String| ["tp/", "tracepoint/"].iter().any(|word| section.starts_with(word));
        let sections: Vec<String> =
            self.object.progs().filter(|p| p.autoload()).map(|p| section(&p)).collect();
        match sections.into_iter().any(by_id) {
            // A tracepoint's id is read from tracefs, which may be mounted on that thread alone.
            true => tracefs::with(|_| self.attach_all())
                .map_err(|e| e.context(format!("{}: cannot attach", self.spec))),
            false => self.attach_all(),
        }
    }

    fn attach_all(&mut self) -> Result<()> {
        for program in self.object.progs_mut().filter(|p| p.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy().into_owned();
            object::take_said();
            match program.attach() {
                Ok(link) => {
                    self.links.push(link);
                    self.said.push(format!("{name} attached ({section})"));
                }
                Err(e) if preflight::os_error(&e).raw_os_error() == Some(libc_eopnotsupp()) => {
                    self.said.push(format!("{name} not attached: '{section}' does not say where"));
                }
                Err(e) => {
                    self.links.clear();
                    let what = format!("{}: cannot attach {name} ({section})", self.spec);
                    return Err(with_said(Error::caused(ErrorKind::Attach, what, preflight::os_error(&e))));
                }
            }
        }
        match self.links.is_empty() {
            false => Ok(()),
            true => {
                let why = format!("{}: no program says where it is to be attached", self.spec);
                Err(Error::new(ErrorKind::Attach, why).with_help(self.said.join("; ")))
            }
        }
    }

    /// Detaches every program; those that run at this moment may still emit.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Programs that are attached, and those that are not and why.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// Of the names that settings speak of, those that this object has.
    pub fn used(&self) -> &[String] {
        &self.used
    }
}

fn libc_eopnotsupp() -> i32 {
    nix::errno::Errno::EOPNOTSUPP as i32
}

/// The variables of an object, for a name that none of the objects has.
pub fn variables_like(path: &Path, name: &str) -> String {
    let btf = read_btf(path).ok().flatten();
    btf.map_or_else(|| "the object has no BTF".into(), |btf| variables::others(&btf, name))
}

/// An object's BTF, or that of a file of BTF alone; `None` where it has none.
pub fn read_btf(path: &Path) -> Result<Option<Btf<'static>>, String> {
    object::listen();
    let cannot = |e: std::io::Error| format!("cannot read {}: {e}", path.display());
    // To open a FIFO is to wait for somebody to write to it.
    if !std::fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(format!("{} is no regular file", path.display()));
    }
    std::fs::File::open(path).map_err(cannot)?;
    object::take_said();
    let Ok(btf) = Btf::from_path(path) else { return Ok(None) };
    // What is followed without end would be followed by libbpf too.
    if !layout::ends(&btf) {
        return Err(format!("the BTF of {} goes in a circle", path.display()));
    }
    Ok(Some(btf))
}

fn open(path: &Path) -> Result<OpenObject, String> {
    let opened = ObjectBuilder::default().open_file(path);
    opened.map_err(|e| {
        let said = object::take_said();
        let last = said.lines().last().map(|l| l.trim_start_matches("libbpf: ").to_owned());
        let cause = last.unwrap_or_else(|| preflight::os_error(&e).to_string());
        format!("{} is no BPF object that can be opened: {cause}", path.display())
    })
}

/// Leaves in what is asked for: the program of that name, or all that load by themselves.
fn choose_programs(open: &mut OpenObject, spec: &Spec) -> Result<()> {
    let names: Vec<String> = open.progs().map(|p| p.name().to_string_lossy().into_owned()).collect();
    if names.is_empty() {
        return Err(Error::new(ErrorKind::Attach, format!("{spec}: the object has no program")));
    }
    if spec.target.is_empty() {
        return Ok(());
    }
    if !names.contains(&spec.target) {
        let why = format!("{spec}: the object has no program '{}'", spec.target);
        return Err(Error::new(ErrorKind::Attach, why).with_help(format!("it has {}", names.join(", "))));
    }
    for mut program in open.progs_mut() {
        let chosen = program.name() == spec.target.as_str();
        program.set_autoload(chosen);
    }
    Ok(())
}

fn load(open: OpenObject, spec: &Spec) -> Result<Object> {
    object::take_said();
    open.load().map_err(|e| {
        let what = format!("{spec}: the kernel refuses the object");
        with_said(Error::caused(ErrorKind::Attach, what, preflight::os_error(&e)))
    })
}

fn with_said(error: Error) -> Error {
    let said = object::take_said();
    match said.trim().is_empty() {
        true => error,
        false => error.with_help(format!("libbpf and the kernel said:\n{}", object::tail(&said, 12))),
    }
}
