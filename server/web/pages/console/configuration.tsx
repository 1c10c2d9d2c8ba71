/** The configuration in force, secrets hidden. */
import { readApi, type Sections } from './api.ts'
import { Problem, useRead } from './use_read.tsx'

export function Configuration() {
  const read = useRead('configuration', 0, () => readApi<Sections>('configuration'))
  return (
    <>
      <h1>Configuration</h1>
      <p class="soft">
        As this process read it at its start. Secrets are shown as set or not set. Settings are changed in farebox.toml
        or the environment; see <a href="/docs/guide/configuration">the guide</a>.
      </p>
      <Problem read={read} />
      <div class="sections">
        {read.value?.sections.map(({ title, settings }) => (
          <section key={title} class="card">
            <h2>{title}</h2>
            <dl class="pairs">
              {settings.map(({ name, value }) => (
                <div key={name}>
                  <dt class="mono">{name}</dt>
                  <dd class={value === 'not set' || value === 'none' ? 'soft' : undefined}>{value}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </>
  )
}
