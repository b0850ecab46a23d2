//! `platter check`: whether a configuration file is right.

use crate::cli::{CliError, Context};
use clap::Args;
use platter_serve::config::{self, Config, ConfigErrors};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `platter check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Reads a configuration of `platter serve --config` and reports all errors with line and column. It opens no device and \
no address. The exit status is 2 if the file is wrong. docs/configuration.md describes the keys.

Example:
  platter check /etc/platter.toml

JSON: file, ok, errors (a list of {line, column, message}), and the numbers of devices and exports.")]
pub(crate) struct Check {
    /// The configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Check {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let result = config::read_file(&self.file);
        if context.json {
            context.print_json(&self.to_json(&result))?;
        }
        match (result, context.json) {
            (Ok(_), true) => Ok(()),
            (Ok(config), false) => context.print(&format!(
                "{}: devices: {}, exports: {}\n",
                self.file.display(),
                config.devices.len(),
                config.exports.len()
            )),
            // One an error, each with its place first, as compilers write them.
            (Err(errors), _) => Err(CliError::usage(format!("the configuration is wrong\n{errors}"))),
        }
    }

    fn to_json(&self, result: &Result<Config, ConfigErrors>) -> Value {
        let file = self.file.display().to_string();
        match result {
            Ok(config) => json!({
                "file": file, "ok": true, "errors": [], "devices": config.devices.len(), "exports": config.exports.len()
            }),
            Err(errors) => {
                let one = |error: &config::ConfigError| json!({ "line": error.line, "column": error.column, "message": error.message });
                let list: Vec<Value> = errors.errors.iter().map(one).collect();
                json!({ "file": file, "ok": false, "errors": list, "devices": null, "exports": null })
            }
        }
    }
}
