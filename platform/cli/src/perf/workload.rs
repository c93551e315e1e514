//! What is asked of stores and clusters: the options that `load` and `limit` share.

use super::stopped::{Stopped, bad_inputs};
use clap::Args;
use quorate_config::ClusterConfig;
use quorate_performance::plan::{LoadInput, LoadPlan};
use std::path::PathBuf;

/// What is asked for.
#[derive(Debug, Args)]
pub(super) struct WorkloadArguments {
    /// Transactions in a batch [default: client_batch_num of the cluster file]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    batch: Option<String>,
    /// Keys in use; a key is as many decimal digits as the highest one needs [default: 100]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keys: Option<String>,
    /// Bytes of a value [default: 9]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    value_size: Option<String>,
    /// Share of gets among the transactions, from 0 to 1; they go through the log [default: 0]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    read_share: Option<String>,
    /// How keys are drawn: uniform or zipfian [default: uniform]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    distribution: Option<String>,
    /// Seed of keys and values [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seed: Option<String>,
}

impl WorkloadArguments {
    pub(super) fn into_input(self) -> LoadInput {
        LoadInput {
            batch: self.batch,
            keys: self.keys,
            value_size: self.value_size,
            read_share: self.read_share,
            distribution: self.distribution,
            seed: self.seed,
            ..LoadInput::default()
        }
    }
}

pub(super) fn plan_of(cluster: ClusterConfig, input: &LoadInput, probe_folder: PathBuf) -> Result<LoadPlan, Stopped> {
    LoadPlan::new(cluster, input, probe_folder).map_err(|errors| bad_inputs(&errors))
}
