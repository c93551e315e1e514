//! What the measurements of a running cluster share: `load` and `clients`.

use super::result::ResultArguments;
use super::stopped::{Stopped, bad_input, failed};
use clap::Args;
use quorate_config::{ClusterConfig, load_cluster};
use quorate_performance::plan::{LoadInput, check_output, output_folder};
use quorate_performance::run::LoadError;
use std::path::{Path, PathBuf};

/// The last options of a measurement of a running cluster.
#[derive(Debug, Args)]
pub(super) struct ClusterRunArguments {
    /// Milliseconds after which a batch is given up [default: 10000]
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    deadline_ms: Option<String>,
    /// Replicas that are meant to be down: their silence does not spoil the result
    #[arg(long, value_name = "ID,...", value_delimiter = ',', allow_hyphen_values = true)]
    expect_down: Vec<String>,
    /// Folder in which the device's sync time is probed when recovery is off [default: that of --json, else of --cluster]
    #[arg(long, value_name = "DIR")]
    probe_dir: Option<PathBuf>,
    /// Where the result goes.
    #[command(flatten)]
    pub(super) result: ResultArguments,
}

impl ClusterRunArguments {
    /// The input with what these options say of a load.
    pub(super) fn complete(&self, input: LoadInput) -> LoadInput {
        LoadInput { deadline_ms: self.deadline_ms.clone(), expect_down: self.expect_down.clone(), ..input }
    }

    /// Where the device's sync time is probed, if it has to be.
    pub(super) fn probe_folder(&self, cluster: &Path) -> PathBuf {
        let beside = || output_folder(self.result.json.as_deref().unwrap_or(cluster));
        self.probe_dir.clone().unwrap_or_else(beside)
    }

    /// Checks before the load that the result can be written and the device's sync time probed: a result without it is not valid.
    pub(super) fn check(&self, probe_folder: &Path) -> Result<(), Stopped> {
        self.result.check()?;
        check_output("--probe-dir", &probe_folder.join("probe")).map_err(|error| {
            let is_elsewhere = "name another folder with --probe-dir";
            bad_input(format!("--probe-dir {}: {}; {is_elsewhere}", probe_folder.display(), error.problem))
        })
    }
}

pub(super) fn cluster_of(path: &Path) -> Result<ClusterConfig, Stopped> {
    load_cluster(path).map(|accepted| accepted.config).map_err(bad_input)
}

/// What is wrong, and what to do where it is known.
pub(super) fn load_failed(error: LoadError) -> Stopped {
    match error {
        LoadError::Connect(error) => failed(format!(
            "{error}\nstart the replicas (quorate serve) and wait for them (quorate cluster wait), then try again"
        )),
        other => failed(other),
    }
}
