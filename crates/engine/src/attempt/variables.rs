//! A task's variables, as the tool reads and sets them during an attempt.

use std::sync::atomic::AtomicU32;

use longhaul_core::{PartsName, TaskEvent, limits};
use serde_json::{Map, Value};

use crate::Attempt;
use crate::suspension::Reason;
use crate::variables::{VariableLimit, Variables, check_variable, write_variables};

impl Attempt {
    /// The variable `name` as it was last set, in this attempt or an earlier one.
    pub async fn variable(&self, name: &str) -> Option<Value> {
        let mut variables = self.shared().variables.lock().await;
        self.values(&mut variables).await.get(name).cloned()
    }

    /// Sets a variable and writes all of them; `null` removes it.
    ///
    /// # Errors
    /// [`VariableLimit`] if the value exceeds a limit. If the store does not answer, the attempt ends instead.
    pub async fn set_variable(&self, name: &str, value: Value) -> Result<(), VariableLimit> {
        check_variable(name, &value)?;
        let mut variables = self.shared().variables.lock().await;
        let mut values = self.values(&mut variables).await.clone();
        if value.is_null() {
            values.remove(name);
        } else {
            values.insert(name.to_owned(), value);
        }
        if variables.values.as_ref() == Some(&values) {
            return Ok(());
        }
        let text = write_variables(&values)?;
        if variables.may_land_late {
            // The next attempt's claim fences off the late write.
            self.shared().suspend.yield_attempt();
            return std::future::pending().await;
        }
        variables.version += 1;
        // Until the write is answered, even if the tool drops this future.
        variables.may_land_late = true;
        let tries = self.write(text, variables.version).await;
        variables.may_land_late = tries > 1;
        variables.values = Some(values);
        Ok(())
    }

    /// Writes the variables and returns how many tries that took.
    async fn write(&self, text: String, version: u32) -> u32 {
        let (engine, task) = (&self.shared().engine, &self.shared().task);
        let name = PartsName::Variables { attempt: task.attempt, version };
        let tries = AtomicU32::new(0);
        let written = match engine.store_payload(&task.key(), name, text, limits::INLINE_BYTES_MAX).await {
            Ok(variables) => {
                let event = TaskEvent::SetVariables { attempt: task.attempt, variables };
                engine.apply_counting(&task.key(), &event, &tries).await.map(drop)
            }
            Err(error) => Err(error.into()),
        };
        match written {
            Ok(()) => tries.into_inner(),
            Err(error) => self.abort(Reason::Retry(format!("the variables could not be written: {error}"))).await,
        }
    }

    async fn values<'a>(&self, variables: &'a mut Variables) -> &'a mut Map<String, Value> {
        if variables.values.is_none() {
            variables.values = Some(self.stored_values().await);
        }
        variables.values.get_or_insert_default()
    }

    async fn stored_values(&self) -> Map<String, Value> {
        let Some(payload) = &self.shared().task.variables else { return Map::new() };
        let text = self.load_or_abort(payload).await;
        match serde_json::from_str(&text) {
            Ok(values) => values,
            Err(error) => self.abort(Reason::corrupt(format!("the variables cannot be read: {error}"))).await,
        }
    }
}
