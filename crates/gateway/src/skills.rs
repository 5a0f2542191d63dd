//! Skills of servers (SEP-2640), which belong to their URIs: passed on as they are.

use rmcp::ErrorData;
use rmcp::model::{
    GetSkillRequestParams, GetSkillResult, ListSkillsResult, PaginatedRequestParams,
    ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult, Skill,
};
use rmcp::service::{Peer, RoleClient, ServiceError};

use crate::limits;
use crate::shared::{Shared, answer, connect};

impl Shared {
    /// The skills of all servers, in the order of the servers. One that does not answer is left out.
    pub(crate) async fn list_skills(&self) -> Result<ListSkillsResult, ErrorData> {
        let mut all: Vec<Skill> = Vec::new();
        for upstream in self.skilled.iter().filter_map(|server| self.upstreams.get(*server)) {
            let listed = async { answer(connect(upstream).await?, read_skills).await };
            match listed.await {
                Ok(skills) => add_valid(&mut all, upstream.name(), skills),
                Err(error) => {
                    let (server, why) = (upstream.name(), &error.message);
                    tracing::warn!(server, %why, "the skills of a server are left out");
                }
            }
        }
        Ok(ListSkillsResult::with_all_items(all))
    }

    /// A skill, from the first server that has it.
    pub(crate) async fn skill(&self, params: GetSkillRequestParams) -> Result<GetSkillResult, ErrorData> {
        let mut refusal = None;
        for upstream in self.skilled.iter().filter_map(|server| self.upstreams.get(*server)) {
            let params = params.clone();
            let connection = connect(upstream).await?;
            match answer(connection, async |peer| peer.get_skill(params).await).await {
                Ok(skill) => return Ok(skill),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(|| ErrorData::invalid_params("no server has skills", None)))
    }

    /// The children of a folder, from the server of the folder, otherwise from the first one that has it.
    pub(crate) async fn directory(
        &self,
        params: ReadResourceDirectoryRequestParams,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        let owner = self.lists.catalog().owner_of(&params.uri);
        let servers = owner.map_or_else(|| self.skilled.clone(), |owner| vec![owner]);
        let mut refusal = None;
        for upstream in servers.iter().filter_map(|server| self.upstreams.get(*server)) {
            let params = params.clone();
            let connection = connect(upstream).await?;
            match answer(connection, async |peer| peer.read_resource_directory(params).await).await {
                Ok(children) => return Ok(children),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(|| ErrorData::invalid_params("no server has folders", None)))
    }
}

fn add_valid(all: &mut Vec<Skill>, server: &str, skills: Vec<Skill>) {
    for skill in skills {
        if is_valid(server, &skill, all) {
            all.push(skill);
        }
    }
}

/// Whether a skill can be listed: one that is wrong, or that another server has too, would hide all others.
fn is_valid(server: &str, skill: &Skill, others: &[Skill]) -> bool {
    let why = match skill.validate() {
        Err(error) => error.to_string(),
        Ok(()) if others.iter().any(|other| other.uri == skill.uri) => "it is listed twice".to_owned(),
        Ok(()) => return true,
    };
    tracing::warn!(server, skill = skill.uri, why, "a skill is left out");
    false
}

async fn read_skills(peer: &Peer<RoleClient>) -> Result<Vec<Skill>, ServiceError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    for _ in 0..limits::PAGES_MAX {
        let page = peer.list_skills(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
        all.extend(page.skills);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(all)
}
