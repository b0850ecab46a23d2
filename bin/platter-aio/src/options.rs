//! Options, from the environment.

use crate::statistics::ReportForm;
use platter_disk::drivers::descriptor_opener::DescriptorOptions;
use platter_disk::drivers::{Choice, FileDriver};

/// How the requests of a file are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Personality {
    /// All at once, as far as POSIX requires no order.
    #[default]
    Concurrent,
    /// One at a time on each descriptor of a file or block device, in order, as an implementation with a thread for
    /// each file does.
    ThreadPerFile,
}

/// The options.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The channel.
    pub channel: DescriptorOptions,
    /// The order of requests.
    pub personality: Personality,
    /// The report at exit.
    pub report: ReportForm,
}

/// A variable of the environment.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its default.
    pub default: &'static str,
    /// Its values.
    pub values: &'static str,
    /// What it sets.
    pub help: &'static str,
}

/// Every variable.
pub static VARIABLES: &[Variable] = &[
    Variable {
        name: "PLATTER_AIO_DRIVER",
        default: "auto",
        values: "auto, uring or threads",
        help: "the driver; auto takes uring where it works",
    },
    Variable {
        name: "PLATTER_AIO_DEPTH",
        default: "1024",
        values: "a number from 1 to 16384",
        help: "most requests outstanding at once; further ones are refused with EAGAIN",
    },
    Variable {
        name: "PLATTER_AIO_THREADS",
        default: "32",
        values: "a number from 1 to 1024",
        help: "with the driver threads: most threads",
    },
    Variable {
        name: "PLATTER_AIO_PERSONALITY",
        default: "concurrent",
        values: "concurrent or thread-per-file",
        help: "thread-per-file: one request at a time on each file or block device, in order",
    },
    Variable {
        name: "PLATTER_AIO_STATISTICS",
        default: "off",
        values: "off, text or json",
        help: "counters, printed to standard error at exit",
    },
];

impl Options {
    /// The options of this process.
    ///
    /// # Errors
    /// A variable has a value that it does not take; the text names both.
    pub fn from_environment() -> Result<Options, String> {
        Options::from(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// The options from these variables.
    ///
    /// # Errors
    /// As for [`from_environment`](Options::from_environment).
    pub fn from(get: impl Fn(&str) -> Option<String>) -> Result<Options, String> {
        fn one<T>(
            get: &dyn Fn(&str) -> Option<String>,
            index: usize,
            parse: impl Fn(&str) -> Option<T>,
        ) -> Result<T, String> {
            let Variable { name, default, values, .. } = &VARIABLES[index];
            let given = get(name).filter(|value| !value.is_empty());
            let value = given.as_deref().unwrap_or(default);
            parse(value).ok_or_else(|| format!("{name}={value}: expected {values}; unset it for {default}"))
        }
        let number = |most: u32| {
            move |text: &str| text.parse::<u32>().ok().filter(|number| (1..=most).contains(number))
        };
        let driver = |text: &str| match text {
            "auto" => Some(Choice::Auto),
            "uring" => Some(Choice::Only(FileDriver::Uring)),
            "threads" => Some(Choice::Only(FileDriver::Threads)),
            _ => None,
        };
        let personality = |text: &str| match text {
            "concurrent" => Some(Personality::Concurrent),
            "thread-per-file" => Some(Personality::ThreadPerFile),
            _ => None,
        };
        let report = |text: &str| match text {
            "off" => Some(ReportForm::Off),
            "text" => Some(ReportForm::Text),
            "json" => Some(ReportForm::Json),
            _ => None,
        };
        Ok(Options {
            channel: DescriptorOptions {
                driver: one(&get, 0, driver)?,
                depth: one(&get, 1, number(16384))?,
                threads: one(&get, 2, number(1024))?,
            },
            personality: one(&get, 3, personality)?,
            report: one(&get, 4, report)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_table() {
        let options = Options::from(|_| None).unwrap();
        assert_eq!((options.channel.depth, options.channel.threads), (1024, 32));
        assert_eq!((options.channel.driver, options.personality), (Choice::Auto, Personality::Concurrent));
        assert_eq!(options.report, ReportForm::Off);
    }

    #[test]
    fn each_variable_refuses_what_it_does_not_take() {
        for variable in VARIABLES {
            for bad in ["0", "-1", "99999999999", "ring"] {
                let get = |name: &str| (name == variable.name).then(|| bad.to_owned());
                let error = Options::from(get).unwrap_err();
                let expected = format!("{}={bad}: expected {}", variable.name, variable.values);
                assert!(error.starts_with(&expected), "{error}");
            }
        }
    }
}
