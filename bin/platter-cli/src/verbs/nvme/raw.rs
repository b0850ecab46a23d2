//! `platter nvme raw`: any command.

use super::super::hex;
use super::endpoint::{Endpoint, OnSpec};
use crate::cli::output::NewFile;
use crate::cli::{CliError, Context};
use clap::{ArgGroup, Args};
use platter::nvme::command::{Command, Direction, Effect, Entry, GET_LOG_PAGE, Queue, TABLE};
use platter::nvme::controller::MAX_TRANSFER;
use platter::nvme::filter::{self, Handle};
use platter::nvme::log::lid;
use platter::nvme::status::words;
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// Most bytes of data that are printed; more needs --output.
const MOST_PRINTED: usize = 64 << 10;

/// Arguments of `platter nvme raw`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("to").required(true).args(["device", "spec"]))]
#[command(after_help = "\
A command is named as in the specification, in lower case with - between words: identify, get-log-page, set-features, \
format-nvm; flush, read, write, compare, write-zeroes, dataset-management, verify. Any other is admin:HH or io:HH with its \
operation code in hexadecimal, and has the fields cdw2, cdw3 and cdw10 to cdw15. Fields are those that platter nvme decode \
prints, with decimal values or hexadecimal ones after 0x; those that are not named are 0, nsid that of the device. Numbers \
of blocks (nlb) count from 0.

A command that may change something needs --yes-destroy with the same SPEC or DEVICE, besides the rules for every writer \
(--force where the device holds a file system).

Examples:
  platter nvme raw identify cns=1 --device /dev/nvme0
  platter nvme raw read slba=0 nlb=7 --on disk.img --output sectors.bin
  platter nvme raw write slba=0x1000 nlb=0 --on 'ram(1M)' --input block.bin --yes-destroy 'ram(1M)'
  platter nvme raw admin:c1 cdw10=4 --data-in 512 --device /dev/nvme0 --yes-destroy /dev/nvme0

JSON: an object with command, status (a number, 0: success), status_words (null where the status is not known), result \
(double words 0 and 1 of the completion), data_in_bytes and data_in, in hexadecimal, null with --output and if there are more \
than 64 KiB. The exit status is 1 unless the command succeeded.")]
pub(crate) struct Raw {
    /// The command, by its name or its operation code
    #[arg(value_parser = blank)]
    command: Entry,
    /// Fields of the command
    #[arg(value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// Send to a controller or namespace of the system: /dev/nvme0, /dev/nvme0n1, /dev/ng0n1
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
    #[command(flatten)]
    on: OnSpec,
    /// Data to send with the command
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Write the data that the command returns to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Bytes that the command returns, if it does not say so itself (features, commands of vendors)
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MAX_TRANSFER as i64))]
    data_in: u32,
    /// Refuse what Linux 6.2 and later refuses from a program without CAP_SYS_ADMIN; without --yes-destroy, as for a node that is open for reading only
    #[arg(long)]
    unprivileged: bool,
    /// The command may change this device
    #[arg(long, value_name = "SPEC")]
    yes_destroy: Option<String>,
}

/// A command without fields, of its name or its code.
fn blank(text: &str) -> Result<Entry, String> {
    let coded = |queue: Queue, code: &str| {
        let code = u8::from_str_radix(code, 16);
        let code = code.map_err(|_| "an operation code is a hexadecimal number from 00 to ff".to_owned())?;
        Ok(Entry::of_code(queue, code))
    };
    match text.split_once(':') {
        Some(("admin", code)) => coded(Queue::Admin, code),
        Some(("io", code)) => coded(Queue::Io, code),
        _ => {
            let found = TABLE.iter().find(|row| name_of(row) == text);
            let names = || TABLE.iter().map(|row| name_of(row)).collect::<Vec<_>>().join(", ");
            found
                .map(|row| Entry::new(row))
                .ok_or_else(|| format!("expected admin:HH, io:HH or one of {}", names()))
        }
    }
}

fn name_of(command: &Command) -> String {
    command.name.to_lowercase().replace(' ', "-")
}

impl Raw {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let entry = self.entry()?;
        let effect = entry.command().effect;
        self.check_consent(&entry, effect)?;
        let data_out = self.data_out(&entry)?;
        let endpoint = Endpoint::open(self.device.as_deref(), &self.on, effect)?;
        let entry = match self.fields.iter().any(|field| field.starts_with("nsid=")) {
            true => entry,
            false => entry.with("nsid", self.default_namespace(&entry, &endpoint)),
        };
        if self.unprivileged {
            self.check_privilege(&entry, &endpoint)?;
        }
        let output = self.output.as_deref().map(NewFile::create).transpose()?;
        let response = endpoint.send(&entry, &data_out, self.data_in as usize)?;
        let returned = response.status.is_success() || !response.data_in.is_empty();
        if let Some(output) = output.filter(|_| returned) {
            output.keep(&response.data_in)?;
        }
        let printed = response.data_in.len() <= MOST_PRINTED && self.output.is_none();
        let name = entry.command().name;
        if context.json {
            context.print_json(&json!({
                "command": name,
                "status": response.status.0,
                "status_words": words(response.status),
                "result": response.result,
                "data_in_bytes": response.data_in.len(),
                "data_in": printed.then(|| hex::print(&response.data_in)),
            }))?;
        } else {
            // The value of a feature is the result, also where it is 0.
            if response.result != 0 || entry.command().name == "Get Features" {
                context.note(&format!("result {} ({:#x})", response.result, response.result));
            }
            if printed {
                context.print(&hex::lines(&response.data_in))?;
            } else if self.output.is_none() {
                context.note(&format!("{} bytes of data; --output FILE keeps them", response.data_in.len()));
            }
        }
        match response.status.is_success() {
            true => Ok(()),
            false => Err(CliError::failed(format!("{}: {name}: {}", endpoint.name(), response.status))),
        }
    }

    /// Commands of the controller name no namespace unless they are told one.
    fn default_namespace(&self, entry: &Entry, endpoint: &Endpoint) -> u64 {
        let of_namespace = entry.command().queue == Queue::Io || entry.command().effect == Effect::Medium;
        let identifies = entry.get("cns").is_some_and(|cns| matches!(cns, 0 | 3 | 5 | 8));
        if of_namespace || identifies { endpoint.namespace() } else { 0 }
    }

    fn entry(&self) -> Result<Entry, CliError> {
        let mut entry = self.command;
        let mut given = Vec::new();
        for field in &self.fields {
            let wrong = |why: String| CliError::usage(format!("{field}: {why}"));
            let (name, value) =
                field.split_once('=').ok_or_else(|| wrong("expected FIELD=VALUE".to_owned()))?;
            if given.contains(&name) {
                return Err(wrong(format!("{name} is given twice")));
            }
            given.push(name);
            let parsed = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            let value = parsed
                .map_err(|_| wrong("expected a number, in decimal or after 0x in hexadecimal".to_owned()))?;
            let row = entry.field(name).filter(|row| !matches!(row.name, "opcode" | "cid" | "psdt"));
            let row = row.ok_or_else(|| {
                let fixed = ["opcode", "cid", "psdt"];
                let names = entry.fields().map(|(name, _)| name).filter(|name| !fixed.contains(name));
                wrong(format!(
                    "{} has the fields {}",
                    entry.command().name,
                    names.collect::<Vec<_>>().join(", ")
                ))
            })?;
            if !entry.set(name, value) {
                return Err(wrong(format!("from 0 to {}", row.max())));
            }
        }
        Ok(entry)
    }

    fn check_consent(&self, entry: &Entry, effect: Effect) -> Result<(), CliError> {
        let device = self.device.as_ref().map(|device| device.display().to_string());
        let target = self.on.spec.clone().or(device).unwrap_or_default();
        if effect == Effect::None || self.yes_destroy.as_ref() == Some(&target) {
            return Ok(());
        }
        let name = entry.command().name;
        Err(CliError::refused(format!("{name} may change {target}; allow it with --yes-destroy '{target}'")))
    }

    /// A controller without the log page of effects allows no I/O commands, as in the kernel.
    fn check_privilege(&self, entry: &Entry, endpoint: &Endpoint) -> Result<(), CliError> {
        let page = Entry::new(&GET_LOG_PAGE).with("lid", lid::EFFECTS.into()).with("nsid", 0xffff_ffff);
        let page = endpoint.send(&page.with("numdl", 4096 / 4 - 1), &[], 0)?;
        let effects = filter::effects_of(entry, &page.data_in);
        let writable = self.yes_destroy.is_some();
        // Partitions cannot be opened.
        let handle = Handle { of_partition: false, writable, privileged: false };
        filter::linux(entry, effects, handle)
            .map_err(|rule| CliError::refused(format!("{}: {rule}", entry.command().name)))
    }

    fn data_out(&self, entry: &Entry) -> Result<Vec<u8>, CliError> {
        let Some(path) = &self.input else { return Ok(Vec::new()) };
        let failed =
            |why: &dyn std::fmt::Display| CliError::usage(format!("--input {}: {why}", path.display()));
        if !matches!(entry.direction(), Direction::Out | Direction::Both) {
            return Err(failed(&format_args!("{} takes no data", entry.command().name)));
        }
        let mut data = Vec::new();
        let file = File::open(path).map_err(|error| failed(&error))?;
        file.take(MAX_TRANSFER + 1).read_to_end(&mut data).map_err(|error| failed(&error))?;
        if data.len() as u64 > MAX_TRANSFER {
            return Err(failed(&format_args!("longer than {MAX_TRANSFER} bytes, the most of one command")));
        }
        Ok(data)
    }
}
