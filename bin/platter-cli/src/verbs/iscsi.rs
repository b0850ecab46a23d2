//! `platter iscsi`: iSCSI targets.

use crate::cli::{CliError, Context};
use clap::{Args, Subcommand};
use platter::remote::iscsi::client::{
    Account, Digest, IscsiError, IscsiOptions, Portal, Target, Unit, Url, luns, targets, unit,
};
use platter_bench::report::units::bytes;
use platter_bench::report::{Column, Table};
use platter_block::time::Span;
use serde_json::{Value, json};

/// The verbs for iSCSI targets.
#[derive(Subcommand, Debug)]
pub(crate) enum Iscsi {
    /// List the targets of a host, and their logical units
    Discover(Discover),
}

impl Iscsi {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Iscsi::Discover(discover) => discover.run(context),
        }
    }
}

/// Arguments of `platter iscsi discover`.
#[derive(Args, Debug)]
#[command(after_help = "\
Asks the host for its targets (SendTargets), and each target for its logical units (REPORT LUNS), which are asked what they are. \
User and secret may also be in LIBISCSI_CHAP_USERNAME and LIBISCSI_CHAP_PASSWORD; the secret only there. Needs the library libiscsi.

Examples:
  platter iscsi discover storage
  platter iscsi discover '[fe80::1]:3261' --user ann --json

JSON: targets, a list of name, portals, error (a word, or null), units: a list of lun, url, vendor, product, serial, size and \
block in bytes, write_protected, error.")]
pub(crate) struct Discover {
    /// The host; port 3260 unless another one is given
    #[arg(value_name = "HOST[:PORT]")]
    portal: String,
    /// Name by which to log in (CHAP)
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Name of the initiator
    #[arg(long, value_name = "NAME")]
    initiator: Option<String>,
    /// Seconds for each login
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// The host. The message about a URL or an account in its place does not repeat the secret that it may have.
fn portal(text: &str) -> Result<Portal, CliError> {
    if text.contains(['@', '/']) {
        return Err(CliError::usage(
            "HOST[:PORT] has an account or a path; give the host alone, the user with --user, and the secret in LIBISCSI_CHAP_PASSWORD",
        ));
    }
    Portal::parse(text).map_err(|error| CliError::usage(format!("HOST[:PORT]: {error}")))
}

/// A logical unit, or why it is not known.
struct FoundUnit {
    url: Url,
    unit: Result<Unit, IscsiError>,
}

/// A target, with its logical units or why they are not known.
struct FoundTarget {
    target: Target,
    units: Result<Vec<FoundUnit>, IscsiError>,
}

impl Discover {
    fn run(&self, context: &Context) -> Result<(), CliError> {
        let portal = portal(&self.portal)?;
        let mut options = IscsiOptions::default().with_connect_timeout(Span::from_secs(self.timeout));
        if let Some(name) = &self.initiator {
            options = options.with_initiator(name.clone());
        }
        let variable = |name: &str| std::env::var(name).ok();
        let secret = variable("LIBISCSI_CHAP_PASSWORD").unwrap_or_default();
        let user = self.user.clone().or_else(|| variable("LIBISCSI_CHAP_USERNAME"));
        let user = user.map(|name| Account { name, secret });
        let found = targets(&portal, user.as_ref(), &options)
            .map_err(|error| CliError::failed(format!("{portal}: {error}")))?;
        let found: Vec<FoundTarget> =
            found.into_iter().map(|target| look(&portal, target, user.as_ref(), &options)).collect();
        context.show(
            &json!({ "targets": found.iter().map(to_json).collect::<Value>() }),
            &to_text(&found, context),
        )
    }
}

fn look(portal: &Portal, target: Target, user: Option<&Account>, options: &IscsiOptions) -> FoundTarget {
    // It answers where the host does; what it tells of its portals may not be reachable from here.
    let url = Url {
        portal: portal.clone(),
        target: target.name.clone(),
        lun: 0,
        user: user.cloned(),
        target_user: None,
        digest: Digest::Either,
    };
    let each = |lun: u16| {
        let url = url.with_lun(lun);
        FoundUnit { unit: unit(&url, options), url }
    };
    let units = luns(&url, options).map(|luns| luns.into_iter().map(each).collect());
    FoundTarget { target, units }
}

fn to_json(found: &FoundTarget) -> Value {
    let error = found.units.as_ref().err().map(ToString::to_string);
    let units: Value = found.units.iter().flatten().map(unit_to_json).collect();
    json!({ "name": found.target.name, "portals": found.target.portals, "error": error, "units": units })
}

fn unit_to_json(found: &FoundUnit) -> Value {
    let unit = found.unit.as_ref().ok();
    json!({
        "lun": found.url.lun,
        "url": found.url.to_string(),
        "vendor": unit.map(|unit| &unit.vendor),
        "product": unit.map(|unit| &unit.product),
        "serial": unit.map(|unit| &unit.serial),
        "size": unit.map(|unit| unit.size),
        "block": unit.map(|unit| unit.block),
        "write_protected": unit.map(|unit| unit.write_protected),
        "error": found.unit.as_ref().err().map(ToString::to_string),
    })
}

fn to_text(found: &[FoundTarget], context: &Context) -> String {
    if found.is_empty() {
        return "the host has no targets for this initiator\n".to_owned();
    }
    let mut text = String::new();
    for FoundTarget { target, units } in found {
        text += &context.terminal.fact(&target.name, &target.portals.join(" "));
        match units {
            Err(error) => text += &format!("  {error}\n"),
            Ok(units) => text += &table(units).to_text(context.terminal),
        }
    }
    text
}

fn table(units: &[FoundUnit]) -> Table {
    let columns = [Column::text("disk"), Column::number("size", ""), Column::text("what it is")];
    let mut table = Table::new(columns);
    for FoundUnit { url, unit } in units {
        let (size, what) = match unit {
            Ok(unit) => {
                let what = format!("{} {} {}", unit.vendor, unit.product, unit.serial);
                let protected = if unit.write_protected { ", write protected" } else { "" };
                (bytes(unit.size), format!("{}{protected}", what.trim()))
            }
            Err(error) => (String::new(), error.to_string()),
        };
        table.row([url.to_string(), size, what]);
    }
    table
}
