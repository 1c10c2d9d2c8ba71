/** Whether the gateways sell, the accounts that pay for settlements, and the models. */
import { type Account, readApi, type Status } from './api.ts'
import { StatusWord } from './calls.tsx'
import { duration, short, time } from './format.ts'
import { Problem, useRead } from './use_read.tsx'

export function Health() {
  const read = useRead('status', 10_000, () => readApi<Status>('status'))
  const status = read.value
  return (
    <>
      <h1>Health</h1>
      <Problem read={read} />
      {status && (
        <>
          <dl class="facts">
            <Fact name="Version" value={status.version} />
            <Fact name="Started" value={time(status.started_at)} />
            <Fact name="Storage" value={status.storage} />
            <Fact name="Clock" value={status.clock} />
          </dl>
          <Gateways gateways={status.gateways} />
          <Accounts accounts={status.accounts} />
          <Models models={status.models} />
        </>
      )}
    </>
  )
}

const Fact = ({ name, value }: { name: string; value: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
)

const Gateways = ({ gateways }: Pick<Status, 'gateways'>) => (
  <section aria-labelledby="gateways">
    <h2 id="gateways">Gateways</h2>
    <div class="table">
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col">Gateway</th>
            <th scope="col">Status</th>
            <th scope="col">Networks</th>
            <th scope="col">Reason</th>
          </tr>
        </thead>
        <tbody>
          {gateways.map((gateway) => (
            <tr key={gateway.name}>
              <th scope="row">{gateway.name}</th>
              <td data-label="Status">
                <StatusWord status={gateway.status} />
              </td>
              <td class="mono" data-label="Networks">
                {[...new Set(gateway.networks)].join(', ') || 'all of the service'}
              </td>
              <td data-label="Reason">{gateway.detail ?? gateway.reason ?? '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </section>
)

const Accounts = ({ accounts }: Pick<Status, 'accounts'>) => (
  <section aria-labelledby="accounts">
    <h2 id="accounts">Accounts that pay for settlements</h2>
    {accounts.length === 0 && <p class="soft">A facilitator settles for this process.</p>}
    {accounts.length > 0 && (
      <div class="table">
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col">Account</th>
              <th scope="col">Gateway</th>
              <th scope="col" class="number">
                Balance
              </th>
              <th scope="col">Lasts</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {accounts.map((account) => (
              <tr key={`${account.gateway} ${account.address}`}>
                <th scope="row" class="mono" title={account.address}>
                  {short(account.address)}
                </th>
                <td data-label="Gateway">{account.gateway}</td>
                <td class="number" data-label="Balance">
                  {account.coins === null
                    ? 'not read yet'
                    : `${Number(account.coins.toPrecision(6))} ${coinOf(account)}`}
                </td>
                <td data-label="Lasts">{lasts(account)}</td>
                <td data-label="State">
                  {account.low === null ? (
                    <span class="status-good">enough</span>
                  ) : (
                    <span class="status-bad">{account.low}</span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    )}
  </section>
)

const coinOf = ({ unit }: Account): string => (unit === 'wei' ? 'ETH' : 'SOL')

function lasts({ lasts_hours: hours, observed_since: since }: Account): string {
  if (hours !== null && since !== null) return `${duration(hours * 3_600_000)}, at the pace since ${time(since)}`
  return 'not known yet: nothing was spent, or for less than ten minutes'
}

function Models({ models }: Pick<Status, 'models'>) {
  const degraded = models.filter(({ status }) => status !== 'available')
  const used = models.filter((model) => !degraded.includes(model) && (model.last_success_at ?? model.last_failure_at))
  const listed = [...degraded, ...used]
  return (
    <section aria-labelledby="vendors">
      <h2 id="vendors">Models, by their last calls</h2>
      <p class="soft">
        Of {models.length} models, {degraded.length} are degraded. Others are listed once they were called.
      </p>
      {listed.length > 0 && (
        <div class="table">
          <table class="stacked">
            <thead>
              <tr>
                <th scope="col">Model</th>
                <th scope="col">Status</th>
                <th scope="col">Last success</th>
                <th scope="col">Last failure</th>
                <th scope="col" class="number">
                  Failures in a row
                </th>
              </tr>
            </thead>
            <tbody>
              {listed.map((model) => (
                <tr key={model.id}>
                  <th scope="row">{model.id}</th>
                  <td data-label="Status">
                    <StatusWord status={model.status} />
                  </td>
                  <td data-label="Last success">{model.last_success_at ? time(model.last_success_at) : '–'}</td>
                  <td data-label="Last failure">{model.last_failure_at ? time(model.last_failure_at) : '–'}</td>
                  <td class="number" data-label="Failures in a row">
                    {model.failures_in_a_row}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
