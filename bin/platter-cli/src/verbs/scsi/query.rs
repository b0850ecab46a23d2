//! Verbs that show what a device says about itself.

use super::super::decoded::show;
use super::super::hex;
use super::sense::show_sense;
use super::unit::{To, failure};
use crate::cli::{CliError, Context};
use clap::Args;
use platter::scsi::cdb::{self, Cdb};
use platter::scsi::page;
use platter::scsi::structure::Structure;

/// Room for the answer to a query: more than any page here has.
const ROOM: u64 = 4096;

/// Room for sense data, whose length has one byte.
const SENSE_ROOM: u64 = 252;

/// The device, and how to show its answer.
#[derive(Args, Debug)]
struct Query {
    #[command(flatten)]
    to: To,
    /// Print the bytes in hexadecimal, as sg_inq --inhex and `platter scsi decode --file` read them
    #[arg(long, conflicts_with = "json")]
    hex: bool,
}

impl Query {
    fn run(
        &self,
        cdb: Cdb,
        layout: fn(&[u8]) -> &'static Structure,
        context: &Context,
    ) -> Result<(), CliError> {
        self.ask(cdb, |data| show(layout(data).decode(data), context), context)
    }

    /// Sends a command; `print` prints the answer, unless it is wanted in hexadecimal.
    fn ask(
        &self,
        cdb: Cdb,
        print: impl FnOnce(&[u8]) -> Result<(), CliError>,
        context: &Context,
    ) -> Result<(), CliError> {
        let response = self.to.ask(&cdb)?;
        if let Some(why) = failure(&response) {
            return Err(CliError::failed(format!("{}: {}: {why}", self.to.spec(), cdb.command().name)));
        }
        if !self.hex {
            return print(&response.data_in);
        }
        context.print(&hex::lines(&response.data_in))
    }
}

/// Arguments of `platter scsi inq`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter scsi inq /dev/sda
  platter scsi inq --on disk.img
  platter scsi inq --on 'ram(1G)' --json

JSON: as platter scsi decode inquiry.")]
pub(crate) struct Inq {
    #[command(flatten)]
    query: Query,
}

impl Inq {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        self.query.run(Cdb::new(&cdb::INQUIRY).with("ALLOCATION LENGTH", ROOM), |_| &page::INQUIRY, context)
    }
}

/// Arguments of `platter scsi vpd`.
#[derive(Args, Debug)]
#[command(after_help = "\
Page 00 lists the others: 80 (serial number), 83 (identification), b0 (limits), b1 (characteristics), b2 \
(provisioning).

Examples:
  platter scsi vpd --on disk.img
  platter scsi vpd b0 --on 'raid0(a.img, b.img)' --json

JSON: as platter scsi decode vpd.")]
pub(crate) struct Vpd {
    /// The page, in hexadecimal
    #[arg(default_value = "00", value_parser = page_code)]
    page: u8,
    #[command(flatten)]
    query: Query,
}

fn page_code(text: &str) -> Result<u8, String> {
    u8::from_str_radix(text, 16)
        .map_err(|_| "a page is a hexadecimal number from 00 to ff, and comes before DEVICE".to_owned())
}

impl Vpd {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let cdb = Cdb::new(&cdb::INQUIRY).with("EVPD", 1).with("PAGE CODE", self.page.into());
        self.query.run(cdb.with("ALLOCATION LENGTH", ROOM), page::vpd, context)
    }
}

/// Arguments of `platter scsi readcap`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter scsi readcap --on disk.img
  platter scsi readcap --short --on disk.img

JSON: as platter scsi decode capacity16, with --short capacity10.")]
pub(crate) struct Readcap {
    /// Send READ CAPACITY (10) in place of READ CAPACITY (16)
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    query: Query,
}

impl Readcap {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if self.short {
            return self.query.run(Cdb::new(&cdb::READ_CAPACITY_10), |_| &page::CAPACITY_10, context);
        }
        let cdb = Cdb::new(&cdb::READ_CAPACITY_16).with("ALLOCATION LENGTH", 32);
        self.query.run(cdb, |_| &page::CAPACITY_16, context)
    }
}

/// Arguments of `platter scsi luns`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter scsi luns --on disk.img

JSON: an object with structure, standard, fields and items, an item for each logical unit.")]
pub(crate) struct Luns {
    #[command(flatten)]
    query: Query,
}

impl Luns {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        self.query.run(Cdb::new(&cdb::REPORT_LUNS).with("ALLOCATION LENGTH", ROOM), |_| &page::LUNS, context)
    }
}

/// Arguments of `platter scsi modes`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter scsi modes --on disk.img
  platter scsi modes 08 --on 'ram(1M)' --json

JSON: as platter scsi decode modes10.")]
pub(crate) struct Modes {
    /// The mode page, in hexadecimal; 3f: all
    #[arg(default_value = "3f", value_parser = mode_page_code)]
    page: u8,
    #[command(flatten)]
    query: Query,
}

fn mode_page_code(text: &str) -> Result<u8, String> {
    let code = u8::from_str_radix(text, 16).ok().filter(|code| *code <= 0x3f);
    code.ok_or_else(|| "a page is a hexadecimal number from 00 to 3f, and comes before DEVICE".to_owned())
}

impl Modes {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let cdb =
            Cdb::new(&cdb::MODE_SENSE_10).with("PAGE CODE", self.page.into()).with("ALLOCATION LENGTH", ROOM);
        self.query.run(cdb, |_| &page::MODE_PARAMETERS_10, context)
    }
}

/// Arguments of `platter scsi sense`.
#[derive(Args, Debug)]
#[command(after_help = "\
Sends REQUEST SENSE. The sense data of a command that fails comes with it, so this shows only what is of the device.

Examples:
  platter scsi sense --on disk.img
  platter scsi sense --descriptor --on 'ram(1M)' --json

JSON: as platter scsi decode sense.")]
pub(crate) struct SenseArgs {
    /// Ask for the descriptor format
    #[arg(long)]
    descriptor: bool,
    #[command(flatten)]
    query: Query,
}

impl SenseArgs {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let cdb = Cdb::new(&cdb::REQUEST_SENSE).with("DESC", self.descriptor.into());
        let cdb = cdb.with("ALLOCATION LENGTH", SENSE_ROOM);
        self.query.ask(cdb, |data| show_sense(data, context), context)
    }
}

/// Arguments of `platter scsi log`.
#[derive(Args, Debug)]
#[command(after_help = "\
Page 00 lists the others: 19 (general statistics and performance).

Examples:
  platter scsi log --on disk.img
  platter scsi log 19 --on 'ram(1M)' --json

JSON: as platter scsi decode log.")]
pub(crate) struct Log {
    /// The log page, in hexadecimal
    #[arg(default_value = "00", value_parser = mode_page_code)]
    page: u8,
    #[command(flatten)]
    query: Query,
}

impl Log {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        // The cumulative values.
        let cdb = Cdb::new(&cdb::LOG_SENSE).with("PC", 1).with("PAGE CODE", self.page.into());
        self.query.run(cdb.with("ALLOCATION LENGTH", ROOM), page::log, context)
    }
}
