//! Verbs that show what a controller and its namespaces are.

use super::super::hex;
use super::endpoint::To;
use super::show::show;
use crate::cli::{CliError, Context};
use clap::{Args, ValueEnum};
use platter::nvme::command::{self, Effect, Entry};
use platter::nvme::identify::{self, cns};
use platter::nvme::log::{self, lid};
use platter::nvme::structure::Structure;

/// How to show the answer.
#[derive(Args, Debug)]
struct Shown {
    /// Print the bytes in hexadecimal, as `platter nvme decode --file` reads them
    #[arg(long, conflicts_with = "json")]
    hex: bool,
}

impl Shown {
    fn print(
        &self,
        structure: Option<&'static Structure>,
        data: &[u8],
        context: &Context,
    ) -> Result<(), CliError> {
        match structure {
            Some(structure) if !self.hex => show(structure.decode(data), context),
            Some(_) => context.print(&hex::lines(data)),
            None if context.json => {
                Err(CliError::usage("a log page without a layout has no JSON; use --hex"))
            }
            None => context.print(&hex::lines(data)),
        }
    }
}

/// Arguments of `platter nvme id`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter nvme id /dev/nvme0
  platter nvme id --on 'ram(1G)' --json

JSON: as platter nvme decode ctrl.")]
pub(crate) struct Id {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    shown: Shown,
}

impl Id {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let entry = Entry::new(&command::IDENTIFY).with("cns", cns::CONTROLLER.into());
        let data = self.to.open(Effect::None)?.ask(&entry)?;
        self.shown.print(Some(&identify::CONTROLLER), &data, context)
    }
}

/// Which data of a namespace.
#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum About {
    /// Identify Namespace: size, limits, formats
    #[default]
    Namespace,
    /// Its identifiers
    Descriptors,
    /// What does not depend on the command set
    Independent,
    /// Further features of the NVM command set
    Nvm,
}

/// Arguments of `platter nvme ns`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter nvme ns /dev/nvme0n1
  platter nvme ns /dev/nvme0 --nsid 2 --about descriptors
  platter nvme ns --on disk.img --json

JSON: as platter nvme decode ns, ns-descs, ns-ind and nvm-ns.")]
pub(crate) struct Ns {
    #[command(flatten)]
    to: To,
    /// The namespace; that of the device if it is one, else 1
    #[arg(long)]
    nsid: Option<u32>,
    /// Which data
    #[arg(long, value_enum, default_value_t)]
    about: About,
    #[command(flatten)]
    shown: Shown,
}

impl Ns {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let endpoint = self.to.open(Effect::None)?;
        let value = match self.about {
            About::Namespace => cns::NAMESPACE,
            About::Descriptors => cns::DESCRIPTORS,
            About::Independent => cns::INDEPENDENT_NAMESPACE,
            About::Nvm => cns::SET_NAMESPACE,
        };
        let nsid = self.nsid.map_or_else(|| endpoint.namespace(), u64::from);
        let entry = Entry::new(&command::IDENTIFY).with("cns", value.into()).with("nsid", nsid);
        self.shown.print(identify::by_cns(value), &endpoint.ask(&entry)?, context)
    }
}

/// Arguments of `platter nvme smart`.
#[derive(Args, Debug)]
#[command(after_help = "\
Temperatures are in kelvins, data units are thousands of 512 bytes, rounded up; controller_busy_time is in minutes.

Examples:
  platter nvme smart /dev/nvme0
  platter nvme smart --on disk.img --json

JSON: as platter nvme decode smart.")]
pub(crate) struct Smart {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    shown: Shown,
}

impl Smart {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        page(&self.to, &self.shown, lid::SMART, None, context)
    }
}

/// Arguments of `platter nvme log`.
#[derive(Args, Debug)]
#[command(after_help = "\
Pages: 00 (supported pages), 01 (errors), 02 (SMART), 03 (firmware), 04 (changed namespaces), 05 (commands and effects). Others \
are printed in hexadecimal.

Examples:
  platter nvme log 01 /dev/nvme0
  platter nvme log 05 --on 'ram(1M)' --json

JSON: as platter nvme decode errors, smart, firmware, log-pages and effects.")]
pub(crate) struct Log {
    /// The log page, in hexadecimal
    #[arg(value_parser = page_code)]
    page: u8,
    #[command(flatten)]
    to: To,
    /// Bytes to read, a multiple of 4; else the length of the page, 512 for one without a layout
    #[arg(long, value_parser = clap::value_parser!(u32).range(4..=65536))]
    bytes: Option<u32>,
    #[command(flatten)]
    shown: Shown,
}

fn page_code(text: &str) -> Result<u8, String> {
    u8::from_str_radix(text, 16).map_err(|_| "a log page is a hexadecimal number from 00 to ff".to_owned())
}

impl Log {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        page(&self.to, &self.shown, self.page, self.bytes, context)
    }
}

/// Length of a log page in bytes.
fn length(page: u8) -> u32 {
    match page {
        lid::SUPPORTED => 1024,
        // The newest error, which every controller keeps.
        lid::ERRORS => 64,
        lid::EFFECTS | 0x04 => 4096,
        _ => 512,
    }
}

fn page(to: &To, shown: &Shown, page: u8, bytes: Option<u32>, context: &Context) -> Result<(), CliError> {
    let bytes = bytes.unwrap_or_else(|| length(page));
    if !bytes.is_multiple_of(4) {
        return Err(CliError::usage(format!("--bytes {bytes}: not a multiple of 4")));
    }
    let dwords = u64::from(bytes / 4 - 1);
    let entry = Entry::new(&command::GET_LOG_PAGE).with("lid", page.into()).with("nsid", 0xffff_ffff);
    let data = to.open(Effect::None)?.ask(&entry.with("numdl", dwords))?;
    let layout = if page == 0x04 { Some(&identify::NAMESPACE_LIST) } else { log::by_lid(page) };
    shown.print(layout, &data, context)
}
