//! Errors of the command, each with the exit status that it means.

use platter::registry::OpenError;
use platter_block::fault;
use platter_disk::sys::SysError;
use std::io;

/// Exit statuses. `platter --help` and docs/command.md list them too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Done,
    /// The run failed: an I/O error, a comparison that did not match.
    Failed,
    /// Wrong usage: the command line, a device spec or a parameter file is invalid.
    Usage,
    /// A device cannot be opened, or does not match its spec: it is missing, in use, or lacks a member.
    CannotOpen,
    /// The devices can be opened, but do not allow the request; `copy` and `raid` have written nothing.
    Refused,
    /// SIGHUP.
    HungUp,
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl Exit {
    /// The number that the process exits with; of a signal, 128 and its number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::CannotOpen => 3,
            Exit::Refused => 4,
            Exit::HungUp => 129,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }
}

/// Why a verb ended without success.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: Exit,
    message: String,
}

impl CliError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> CliError {
        CliError { exit, message: message.into() }
    }

    /// The command line is invalid, regardless of the devices present.
    pub(crate) fn usage(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Usage, message)
    }

    /// The devices do not allow the request.
    pub(crate) fn refused(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Refused, message)
    }

    /// The run failed.
    pub(crate) fn failed(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Failed, message)
    }

    /// Writing to stdout failed. If the reader has closed its end (`platter … | head`), no message is
    /// printed.
    pub(super) fn output(error: io::Error) -> CliError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::failed(""),
            _ => CliError::failed(format!("cannot write the result: {error}")),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The message for the user, if there is one.
    pub(crate) fn message(&self) -> Option<&str> {
        (!self.message.is_empty()).then_some(self.message.as_str())
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> CliError {
        let exit = if error.is_usage() { Exit::Usage } else { Exit::CannotOpen };
        CliError::new(exit, error.to_string())
    }
}

impl From<SysError> for CliError {
    fn from(error: SysError) -> CliError {
        CliError::new(Exit::CannotOpen, error.to_string())
    }
}

impl From<fault::Error> for CliError {
    fn from(error: fault::Error) -> CliError {
        CliError::failed(error.to_string())
    }
}
