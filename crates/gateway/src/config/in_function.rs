//! The configuration of a Lambda function, which has no secrets if it runs no tools, and downloads no programs.

use longhaul::settings::EnvSource;

use super::reader::NotSet;
use super::{Config, ConfigError, Fault, ResourceUpdates};
use crate::target::Target;

/// Programs that download what they start.
const DOWNLOADERS: [&str; 7] = ["bunx", "docker", "npx", "pipx", "pnpx", "podman", "uvx"];

/// The role of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It answers requests, and starts no child.
    Api,
    /// It runs tools.
    Worker,
}

/// A configuration, for a function. Servers whose variables are not set are reached by other functions only.
pub(crate) fn read(text: &str, env: &dyn EnvSource, role: Role) -> Result<Config, ConfigError> {
    let mut config = Config::read(text, env, NotSet::Elsewhere)?;
    let mut faults = Vec::new();
    for server in &mut config.servers {
        // Nothing of it would run between two requests.
        server.resource_updates = ResourceUpdates::Unheard;
        let Target::Child(launch) = &mut server.target else { continue };
        let program = launch.command.rsplit('/').next().unwrap_or_default();
        if DOWNLOADERS.contains(&program) {
            let pointer = format!("/mcpServers/{}/command", server.name);
            faults.push(Fault { pointer, what: downloads(program) });
        }
        match role {
            Role::Api => server.target = Target::Elsewhere("only workers start it".to_owned()),
            // Python of the managed runtimes does not find its own library without it.
            Role::Worker => {
                let libraries = env.get("LD_LIBRARY_PATH").and_then(|path| path.into_string().ok());
                launch.env.extend(libraries.map(|path| ("LD_LIBRARY_PATH".to_owned(), path)));
            }
        }
    }
    if role == Role::Api {
        for job in &mut config.jobs {
            job.kind = Err("only workers run it".to_owned());
        }
    }
    if faults.is_empty() { Ok(config) } else { Err(ConfigError { faults }) }
}

fn downloads(program: &str) -> String {
    let instead = match program {
        "uvx" | "pipx" => {
            "install the package into the bundle (`pip install --target bundle PACKAGE`), and start it with `python3 \
             -m MODULE`"
        }
        "docker" | "podman" => "put the server into the bundle, or into the image of the worker, and start it itself",
        _ => {
            "install the package into the bundle (`npm install --prefix bundle PACKAGE`), and start it with `node \
             node_modules/PACKAGE/…`"
        }
    };
    format!("`{program}` downloads what it starts, which a function cannot: {instead}")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    struct Env;

    impl EnvSource for Env {
        fn get(&self, name: &str) -> Option<OsString> {
            let known = [("PATH", "/bin"), ("LD_LIBRARY_PATH", "/var/lang/lib"), ("HOST", "search.example.com")];
            known.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        }
    }

    const TEXT: &str = r#"{
        "mcpServers": {
            "git": {"command": "python3", "args": ["-m", "mcp_server_git"]},
            "secret": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "${TOKEN}"}},
            "open": {"type": "http", "url": "https://${HOST}/mcp"}
        },
        "longhaul": {"servers": {"secret": {"prefix": "s_"}}}
    }"#;

    fn targets(role: Role) -> Vec<Target> {
        read(TEXT, &Env, role).unwrap().servers.into_iter().map(|server| server.target).collect()
    }

    #[test]
    fn servers_without_their_variables_are_reached_elsewhere() {
        for role in [Role::Api, Role::Worker] {
            let targets = targets(role);
            assert!(matches!(&targets[1], Target::Elsewhere(why) if why == "`TOKEN` is not set here"), "{targets:?}");
            assert!(matches!(&targets[2], Target::Http(_)), "{targets:?}");
        }
    }

    #[test]
    fn only_workers_start_processes() {
        assert!(matches!(&targets(Role::Api)[0], Target::Elsewhere(_)));
        let Target::Child(launch) = targets(Role::Worker).swap_remove(0) else { panic!("it has a command") };
        assert_eq!(launch.env.get("LD_LIBRARY_PATH").map(String::as_str), Some("/var/lang/lib"));
    }

    #[test]
    fn programs_that_download_are_refused_with_what_to_do() {
        for (command, instead) in [("npx", "npm install"), ("/usr/bin/uvx", "pip install"), ("docker", "image")] {
            let text = format!(r#"{{"mcpServers": {{"git": {{"command": "{command}"}}}}}}"#);
            for role in [Role::Api, Role::Worker] {
                let said = read(&text, &Env, role).unwrap_err().to_string();
                assert!(said.starts_with("/mcpServers/git/command: `") && said.contains(instead), "{said}");
            }
        }
    }

    #[test]
    fn terms_have_no_variables_that_are_not_set() {
        let text = TEXT.replace("s_", "${TOKEN}");
        let said = read(&text, &Env, Role::Api).unwrap_err().to_string();
        assert!(said.contains("/longhaul: names the variable `TOKEN`"), "{said}");
    }
}
