/** Revenue, calls, buyers, durations and failures over time. */
import { useState } from 'preact/hooks'
import { type Figures, type NamedFigures, readApi, type Series } from './api.ts'
import { count, counted, duration, usdc } from './format.ts'
import { Plot } from './plot.tsx'
import { byName, DAY_S, labelOf, measured, type PlotData, timesOf } from './plot_data.ts'
import { Problem, useRead } from './use_read.tsx'

const RANGES = [
  ['24h', '24 hours'],
  ['3d', '3 days'],
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['365d', '1 year'],
] as const

const NAMES = { gateway: 'Gateway', endpoint: 'Product', model: 'Model' } as const
type Name = keyof typeof NAMES
type Filter = Partial<Record<Name, string>>

/** After a click on a name, what is inside of it. */
const INSIDE: Readonly<Record<Name, Name>> = { gateway: 'endpoint', endpoint: 'model', model: 'gateway' }

export function Overview() {
  const [range, setRange] = useState<string>('7d')
  const [by, setBy] = useState<Name>('endpoint')
  const [filter, setFilter] = useState<Filter>({})
  const query = new URLSearchParams({ since: range, ...filter })
  const read = useRead(`${query}&${by}`, 60_000, async () => {
    const [all, named] = await Promise.all([
      readApi<Series>(`series?${query}`),
      readApi<Series>(`series?${query}&by=${by}`),
    ])
    return { all, named }
  })
  const choose = (name: string) => {
    setFilter({ ...filter, [by]: name })
    setBy(INSIDE[by])
  }
  return (
    <>
      <h1>Overview</h1>
      <div class="filters">
        <div class="row" role="group" aria-label="Range">
          {RANGES.map(([value, text]) => (
            <button type="button" class="chip" aria-pressed={range === value} onClick={() => setRange(value)}>
              {text}
            </button>
          ))}
        </div>
        <label class="order">
          By{' '}
          <select value={by} onChange={(event) => setBy(event.currentTarget.value as Name)}>
            {Object.entries(NAMES).map(([value, text]) => (
              <option value={value}>{text}</option>
            ))}
          </select>
        </label>
      </div>
      <Chosen filter={filter} onChange={setFilter} />
      <Problem read={read} />
      {read.value && <Figured {...read.value} by={by} onChoose={choose} />}
    </>
  )
}

function Chosen({ filter, onChange }: { filter: Filter; onChange: (filter: Filter) => void }) {
  const entries = Object.entries(filter) as [Name, string][]
  if (entries.length === 0) return null
  return (
    <p class="row">
      {entries.map(([name, value]) => (
        <button
          type="button"
          class="chip"
          onClick={() => onChange(Object.fromEntries(entries.filter(([other]) => other !== name)))}
        >
          {NAMES[name]}: {value} <span aria-hidden="true">×</span>
          <span class="visually-hidden">, remove this filter</span>
        </button>
      ))}
    </p>
  )
}

const revenue = (point: Figures): number => Number(point.charged_usdc)

function Figured({
  all,
  named,
  by,
  onChoose,
}: {
  all: Series
  named: Series
  by: Name
  onChoose: (name: string) => void
}) {
  const { totals, unit } = all
  const ended = totals.completed + totals.failed
  const share = ended === 0 ? '–' : `${Number(((100 * totals.failed) / ended).toPrecision(2))} %`
  const buyers = buyersOf(all)
  const most = Math.max(0, ...all.buyers.map((day) => day.buyers))
  const isCompared = named.names.length > 1
  const across = NAMES[by].toLowerCase()
  return (
    <>
      <dl class="facts">
        <Fact name="Revenue" value={`${usdc(totals.charged_usdc)} USDC`} />
        <Fact name="Paid calls" value={count(totals.settled)} />
        <Fact name="Most buyers in a day" value={count(most)} />
        <Fact name="Median duration" value={duration(totals.p50_ms)} />
        <Fact name="Failed" value={share} />
      </dl>
      <div class="plots">
        <Plot
          title={isCompared ? `Revenue by ${across}` : 'Revenue'}
          summary={`${usdc(totals.charged_usdc)} USDC`}
          data={isCompared ? byName(named, revenue) : measured(all, { USDC: revenue })}
          unit={unit}
          isBars={!isCompared}
          print={usdc}
        />
        <Plot
          title={isCompared ? `Completed calls by ${across}` : 'Completed calls'}
          summary={counted(totals.completed, 'call')}
          data={
            isCompared
              ? byName(named, (point) => point.completed)
              : measured(all, { calls: (point) => point.completed })
          }
          unit={unit}
          isBars={!isCompared}
          isCount
          print={count}
        />
        <Plot
          title="Buyers per day"
          summary={`at most ${counted(most, 'wallet')} in a day`}
          data={buyers}
          unit="day"
          isBars
          isCount
          print={count}
        />
        <Plot
          title="Duration"
          summary={`median ${duration(totals.p50_ms)}, 95 % within ${duration(totals.p95_ms)}`}
          data={measured(all, { median: (point) => point.p50_ms, '95 %': (point) => point.p95_ms })}
          unit={unit}
          print={duration}
        />
        <Plot
          title="Failures"
          summary={`${count(totals.failed)} failed, ${count(totals.refused)} payments refused, ${count(totals.unresolved)} unresolved`}
          data={measured(all, {
            failed: (point) => point.failed,
            refused: (point) => point.refused,
            unresolved: (point) => point.unresolved,
          })}
          unit={unit}
          isCount
          print={count}
        />
      </div>
      <Names names={named.names} by={by} onChoose={onChoose} />
    </>
  )
}

const Fact = ({ name, value }: { name: string; value: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
)

function buyersOf({ buyers, ...series }: Series): PlotData {
  const days = timesOf({ ...series, unit: 'day' })
  const counts = new Map(buyers.map((day) => [Date.parse(day.at) / 1_000, day.buyers]))
  return { times: days, lines: [{ label: 'wallets', values: days.map((day) => counts.get(day - (day % DAY_S)) ?? 0) }] }
}

function Names({
  names,
  by,
  onChoose,
}: {
  names: readonly NamedFigures[]
  by: Name
  onChoose: (name: string) => void
}) {
  return (
    <section aria-labelledby="names">
      <h2 id="names">By {NAMES[by].toLowerCase()}</h2>
      {names.length === 0 && <p class="soft">Nothing was sold in this range.</p>}
      {names.length > 0 && (
        <div class="table">
          <table class="stacked">
            <thead>
              <tr>
                <th scope="col">{NAMES[by]}</th>
                <th scope="col" class="number">
                  Revenue, USDC
                </th>
                <th scope="col" class="number">
                  Completed
                </th>
                <th scope="col" class="number">
                  Failed
                </th>
                <th scope="col" class="number">
                  Median
                </th>
                <th scope="col" class="number">
                  95 %
                </th>
              </tr>
            </thead>
            <tbody>
              {names.map(({ name, ...figures }) => (
                <tr key={name}>
                  <th scope="row">
                    {name === null ? (
                      labelOf(name)
                    ) : (
                      <button type="button" class="plain" onClick={() => onChoose(name)}>
                        {name}
                      </button>
                    )}
                  </th>
                  <td class="number" data-label="Revenue, USDC">
                    {usdc(figures.charged_usdc)}
                  </td>
                  <td class="number" data-label="Completed">
                    {count(figures.completed)}
                  </td>
                  <td class="number" data-label="Failed">
                    {count(figures.failed)}
                  </td>
                  <td class="number" data-label="Median">
                    {duration(figures.p50_ms)}
                  </td>
                  <td class="number" data-label="95 %">
                    {duration(figures.p95_ms)}
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
