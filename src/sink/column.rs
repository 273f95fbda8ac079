//! The columns of the text form.

use crate::{Error, Result};

/// What one column shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Column {
    /// The time, as `-t` says.
    Time,
    /// The task's name.
    Comm,
    /// The process id; together with a thread id right after it, `pid/tid`.
    Pid,
    /// The thread id.
    Tid,
    /// The CPU.
    Cpu,
    /// The user id.
    Uid,
    /// The cgroup id.
    Cgroup,
    /// The sequence number, and after a dot the level where that is not 0.
    Seq,
    /// The event's name.
    Name,
    /// All fields, as `name=value`.
    Args,
    /// The field of this name; nothing for events that have none.
    Field(String),
}

impl Column {
    /// Reads a list such as `time,comm,pid,fd`; a word that is no column names a field.
    ///
    /// # Errors
    ///
    /// Usage, where a name is empty.
    pub fn parse_list(list: &str) -> Result<Vec<Column>> {
        list.split(',').map(|word| Column::parse(word.trim())).collect()
    }

    fn parse(word: &str) -> Result<Column> {
        Ok(match word {
            "time" => Column::Time,
            "comm" => Column::Comm,
            "pid" => Column::Pid,
            "tid" => Column::Tid,
            "cpu" => Column::Cpu,
            "uid" => Column::Uid,
            "cgroup" => Column::Cgroup,
            "seq" => Column::Seq,
            "name" => Column::Name,
            "args" => Column::Args,
            "" => {
                return Err(Error::usage("--fields: an empty name").with_help(
                    "names are time, comm, pid, tid, cpu, uid, cgroup, seq, name, args, and those of fields",
                ));
            }
            field => Column::Field(field.into()),
        })
    }
}
