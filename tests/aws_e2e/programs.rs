//! The programs that are deployed, and the emulator that has them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, OnceLock};

use aws_config::SdkConfig;
use harness::{emulator, program, root};

/// The programs of both functions.
pub(crate) struct Programs {
    /// The folder of the emulator that they are deployed to. Programs without one run on the Runtime API host only.
    state: Option<&'static str>,
    prefix: &'static str,
    api: LazyLock<PathBuf>,
    worker: LazyLock<PathBuf>,
    emulator: OnceLock<(File, String)>,
}

/// The programs of the shipped application.
pub(crate) static SHIPPED: Programs = Programs {
    state: Some(".cache/local-aws"),
    prefix: "",
    api: LazyLock::new(|| program("api")),
    worker: LazyLock::new(|| program("worker")),
    emulator: OnceLock::new(),
};

/// The programs of the gateway.
pub(crate) static GATEWAY: Programs = Programs {
    state: None,
    prefix: "gateway-",
    api: LazyLock::new(|| program("gateway-api")),
    worker: LazyLock::new(|| program("gateway-worker")),
    emulator: OnceLock::new(),
};

/// The programs with the fixtures of the conformance suite.
pub(crate) static CONFORMANCE: Programs = Programs {
    state: Some(".cache/local-aws-conformance"),
    prefix: "conformance-",
    api: LazyLock::new(|| program("conformance-api")),
    worker: LazyLock::new(|| program("conformance-worker")),
    emulator: OnceLock::new(),
};

impl Programs {
    /// The API function's program.
    pub(crate) fn api(&'static self) -> &'static Path {
        &self.api
    }

    /// The worker function's program.
    pub(crate) fn worker(&'static self) -> &'static Path {
        &self.worker
    }

    /// The log of the emulator that they are deployed to.
    pub(crate) fn emulator_log(&self) -> PathBuf {
        root().join(self.state.expect("they are deployed")).join("shared.log")
    }

    /// The emulator's endpoint. It has the functions ready to be deployed, is shared by all test processes, and runs at
    /// least as long as this one.
    pub(crate) fn endpoint(&'static self) -> &'static str {
        let Some(state) = self.state else { return emulator::endpoint() };
        let start = || {
            let folder = self.api().parent().expect("a program is in a folder");
            let mut script = local_aws();
            script.arg("shared").env("LOCAL_AWS_STATE", root().join(state)).env("LOCAL_AWS_BIN_DIR", folder);
            emulator::shared(state, script.env("LOCAL_AWS_BIN_PREFIX", self.prefix))
        };
        &self.emulator.get_or_init(start).1
    }

    /// The script that deploys, with the emulator's endpoint.
    pub(crate) fn deploying(&'static self) -> Command {
        let mut command = local_aws();
        command.env("AWS_ENDPOINT_URL", self.endpoint()).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        command
    }

    /// The configuration with which an SDK client reaches the emulator.
    pub(crate) fn config(&'static self) -> SdkConfig {
        emulator::config_of(self.endpoint())
    }
}

fn local_aws() -> Command {
    Command::new(root().join("scripts/local-aws.sh"))
}

/// The API function's program of the shipped application.
pub(crate) fn api() -> &'static Path {
    SHIPPED.api()
}

/// The worker function's program of the shipped application.
pub(crate) fn worker() -> &'static Path {
    SHIPPED.worker()
}
