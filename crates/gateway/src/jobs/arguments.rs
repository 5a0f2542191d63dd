//! Which arguments of a caller reach a job that turns them into environment variables or parameters of its own.

use serde_json::{Map, Value};

use crate::jobs::job::JobError;

/// Environment variables that decide which code runs, or where programs connect to.
const VARIABLES: &str = "\
    ALL_PROXY BASHOPTS BASH_ENV BASH_LOADABLES_PATH CDPATH CLASSPATH CPATH CURL_CA_BUNDLE CURL_HOME DOCKER_CERT_PATH \
    DOCKER_CONFIG DOCKER_CONTEXT DOCKER_HOST DOCKER_TLS_VERIFY EDITOR ENV FPATH GCONV_PATH GEM_HOME GEM_PATH \
    GIT_ASKPASS GIT_DIR GIT_EDITOR GIT_EXEC_PATH GIT_EXTERNAL_DIFF GIT_PAGER GIT_PROXY_COMMAND GIT_SEQUENCE_EDITOR \
    GIT_SSH GIT_SSH_COMMAND GIT_TEMPLATE_DIR GIT_WORK_TREE GLIBC_TUNABLES GOENV GOFLAGS GOPROXY GOROOT GRADLE_OPTS \
    HOME HOSTALIASES HTTPS_PROXY HTTP_PROXY IFS JAVA_HOME JAVA_OPTIONS JAVA_OPTS JAVA_TOOL_OPTIONS JDK_JAVAC_OPTIONS \
    JDK_JAVA_OPTIONS KUBECONFIG LOCALDOMAIN LOCPATH MAKEFILES MAKEFLAGS MAVEN_ARGS MAVEN_OPTS NLSPATH \
    NODE_EXTRA_CA_CERTS NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NODE_TLS_REJECT_UNAUTHORIZED NO_PROXY \
    NVM_DIR OPENSSL_CONF OPENSSL_CONF_INCLUDE OPENSSL_ENGINES OPENSSL_MODULES PAGER PATH PATHEXT PHPRC \
    PHP_INI_SCAN_DIR PROMPT_COMMAND PS4 Path REQUESTS_CA_BUNDLE RES_OPTIONS RUSTC RUSTFLAGS R_ENVIRON R_ENVIRON_USER \
    R_HOME R_LIBS R_LIBS_USER R_PROFILE R_PROFILE_USER SBT_OPTS SHELL SHELLOPTS SSH_ASKPASS SSH_AUTH_SOCK \
    SSLKEYLOGFILE SSL_CERT_DIR SSL_CERT_FILE TCLLIBPATH TEMP TMP TMPDIR VIMINIT VIRTUAL_ENV VISUAL XDG_CONFIG_DIRS \
    XDG_CONFIG_HOME XDG_DATA_DIRS ZDOTDIR _JAVA_OPTIONS __PYVENV_LAUNCHER__ all_proxy http_proxy https_proxy \
    no_proxy";

/// The same for all variables whose names begin with one of these prefixes. `AWS_`, `CODEBUILD_` and `ECS_` belong to
/// the services, and `LONGHAUL_` belongs to Longhaul.
const VARIABLES_OF: &str = "\
    AWS_ BASH_FUNC_ BUNDLE_ CARGO_ CGO_ CODEBUILD_ COMPLUS_ CORECLR_ COR_ DENO_ DOTNET_ DYLD_ ECS_ ERL_ GIT_CONFIG \
    LD_ LONGHAUL_ LUA_ MALLOC_ NPM_CONFIG_ NUGET_ PERL PHP_ PIP_ PYTHON RUBY RUSTC_ RUSTUP_ UV_ YARN_ npm_config_";

/// Arguments of a run that Glue itself obeys, without the `--` before them and with `-` for `_`.
const OF_GLUE: &str = "\
    additional-python-modules auto-scale-within-microbatch class conf datalake-formats debug disable-proxy \
    disable-proxy-v2 endpoint executor-cores job-id job-language job-mode job-name job-run-id library-set \
    longhaul-task mode pip-install scriptlocation security-configuration spark-event-logs-path tempdir \
    use-postgres-driver user-jars-first worker-type workergroup";

/// The same for all whose names begin so.
const OF_GLUE_TOO: &str = "\
    -- aws- continuous-log customer-driver enable- encryption- extra- job-bookmark- python-modules- spark- \
    write-shuffle-";

/// Whether a variable of this name would decide more than the input of the job, or cannot be set.
pub(crate) fn is_reserved_variable(name: &str) -> bool {
    let is_name = !name.is_empty() && name.chars().all(|next| next.is_ascii_alphanumeric() || "_-.".contains(next));
    !is_name || is_one_of(VARIABLES, name) || begins_as_one_of(VARIABLES_OF, name)
}

/// Whether Glue itself obeys an argument of this name.
pub(crate) fn is_reserved_by_glue(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    name.is_empty() || is_one_of(OF_GLUE, &name) || begins_as_one_of(OF_GLUE_TOO, &name)
}

fn is_one_of(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

fn begins_as_one_of(beginnings: &str, name: &str) -> bool {
    beginnings.split_whitespace().any(|beginning| name.starts_with(beginning))
}

/// Each argument as a text: a text is itself, and everything else is JSON.
pub(crate) fn texts(input: &Value) -> impl Iterator<Item = (&String, String)> {
    let arguments = input.as_object().into_iter().flat_map(Map::iter);
    arguments.map(|(name, value)| (name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
}

/// The same for arguments that the configuration names, and that decide nothing but the input of the job.
///
/// # Errors
/// The first argument that may not be passed.
pub(crate) fn named(
    names: &[String],
    is_reserved: fn(&str) -> bool,
    input: &Value,
) -> Result<Vec<(String, String)>, JobError> {
    let checked = texts(input).map(|(name, value)| {
        let why = if is_reserved(name) {
            "its name is reserved, because it would change how the job runs"
        } else if !names.contains(name) {
            "the tool's `inputSchema` does not name it"
        } else {
            return Ok((name.clone(), value));
        };
        Err(JobError::Refused(format!(
            "the argument `{}` cannot be passed to the job: {why}",
            crate::jobs::output::cut(name)
        )))
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_that_load_code_or_belong_to_somebody_else_are_reserved() {
        for reserved in [
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "BASH_ENV",
            "PATH",
            "LONGHAUL_TASK",
            "PYTHONPATH",
            "PERL5OPT",
            "JAVA_TOOL_OPTIONS",
            "AWS_ENDPOINT_URL",
            "CODEBUILD_SRC_DIR",
            "https_proxy",
            "GIT_SSH_COMMAND",
            "",
            "A=B",
            "BASH_FUNC_ls%%",
            "a b",
            "DOTNET_STARTUP_HOOKS",
            "npm_config_script_shell",
        ] {
            assert!(is_reserved_variable(reserved), "{reserved}");
        }
        for free in ["month", "rows", "MONTH", "lower-bound", "env", "path", "NODE_ENV", "git_ref", "ld"] {
            assert!(!is_reserved_variable(free), "{free}");
        }
    }

    #[test]
    fn what_glue_obeys_is_reserved_however_it_is_written() {
        for reserved in [
            "scriptLocation",
            "extra-py-files",
            "extra_py_files",
            "additional-python-modules",
            "TempDir",
            "conf",
            "enable-spark-ui",
            "longhaul_task",
            "--scriptLocation",
            "JOB_NAME",
            "",
        ] {
            assert!(is_reserved_by_glue(reserved), "{reserved}");
        }
        for free in ["month", "job", "table", "classes", "config"] {
            assert!(!is_reserved_by_glue(free), "{free}");
        }
    }

    #[test]
    fn arguments_pass_that_are_named_and_not_reserved() {
        let names = ["month".to_owned(), "rows".to_owned(), "PATH".to_owned()];
        let pass = |input| named(&names, is_reserved_variable, &input);
        let both = [("month".to_owned(), "06".to_owned()), ("rows".to_owned(), "7".to_owned())];
        assert_eq!(pass(json!({"month": "06", "rows": 7})).unwrap(), both);
        for wrong in [json!({"year": 7}), json!({"PATH": "/tmp"}), json!({"month": "06", "LD_PRELOAD": "x"})] {
            assert!(matches!(pass(wrong), Err(JobError::Refused(_))));
        }
    }
}
