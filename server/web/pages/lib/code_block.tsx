import { useState } from 'preact/hooks'

/** Code with a button that copies it. */
export function CodeBlock({ code, label }: { code: string; label: string }) {
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(code)
    setCopied(true)
    setTimeout(() => setCopied(false), 2_000)
  }
  return (
    <div class="code-block">
      <pre tabIndex={0} aria-label={label}>
        <code>{code}</code>
      </pre>
      <button type="button" onClick={copy}>
        <span role="status">{isCopied ? 'Copied' : 'Copy'}</span>
      </button>
    </div>
  )
}

/** A row of tabs with the code of the chosen one (WAI-ARIA tabs: arrows move between them). */
export function CodeTabs({ tabs, label }: { tabs: readonly (readonly [name: string, code: string])[]; label: string }) {
  const [index, setIndex] = useState(0)
  const at = Math.min(index, tabs.length - 1)
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined) return
    const next = (at + step + tabs.length) % tabs.length
    setIndex(next)
    ;(event.currentTarget as HTMLElement).querySelectorAll('button')[next]?.focus()
  }
  return (
    <div>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(([name], position) => (
          <button
            type="button"
            role="tab"
            id={`tab-${position}`}
            aria-controls="tab-panel"
            aria-selected={position === at}
            tabIndex={position === at ? 0 : -1}
            onClick={() => setIndex(position)}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${at}`}>
        <CodeBlock code={tabs[at]?.[1] ?? ''} label={`${tabs[at]?.[0]} code`} />
      </div>
    </div>
  )
}
